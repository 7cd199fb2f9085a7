//! Routes and policy rules, over rtnetlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::netlink::{Body, CREATE, EXCLUSIVE, Netlink, attributes};

// linux/rtnetlink.h, linux/fib_rules.h
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const LIST_ROUTES: u16 = 26;
const DELETE_LINK: u16 = 17;
const LIST_LINKS: u16 = 18;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const LIST_RULES: u16 = 34;
const TABLE_MAIN: u32 = 254;
const ROUTE_DESTINATION: u16 = 1;
const ROUTE_INTERFACE: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_PRIORITY: u16 = 6;
const ROUTE_MULTIPATH: u16 = 9;
const ROUTE_CACHE: u16 = 12;
const ROUTE_TABLE: u16 = 15;
const ROUTE_VIA: u16 = 18;
const RULE_DESTINATION: u16 = 1;
const RULE_PRIORITY: u16 = 6;
const RULE_MARK: u16 = 10;
const RULE_SUPPRESS_PREFIX: u16 = 14;
const RULE_TABLE: u16 = 15;
const RULE_MARK_MASK: u16 = 16;
const RULE_PROTOCOL: u16 = 22;
const RULE_DESTINATION_PORTS: u16 = 24;
const LINK_NAME: u16 = 3;

/// Our table of routes, whose default is the TUN device.
pub(super) const TABLE: u32 = 0x6375_6c76;
/// The first priority of our rules; they stand before those of the main table (32766).
const FIRST_RULE: u32 = 8990;

/// The two families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }
}

/// One of our policy rules, as the kernel takes it (and, to undo it, takes it away).
#[derive(Debug, Clone)]
pub(super) struct Rule(Body);

impl Rule {
    fn new(family: Family, destination_bits: u8, step: u32, table: u32) -> Self {
        // fib_rule_hdr: family, dst_len, src_len, tos, table, two reserved, action (to a table), flags
        let small = u8::try_from(table).unwrap_or(0);
        let header = [family.number(), destination_bits, 0, 0, small, 0, 0, 1, 0, 0, 0, 0];
        let mut body = Body::with_header(&header);
        body.put_u32(RULE_PRIORITY, FIRST_RULE + step).put_u32(RULE_TABLE, table);
        Self(body)
    }

    /// Marked sockets go where they would without us.
    pub(super) fn marked(family: Family, mark: u32) -> Self {
        let mut rule = Self::new(family, 0, 0, TABLE_MAIN);
        rule.0.put_u32(RULE_MARK, mark).put_u32(RULE_MARK_MASK, u32::MAX);
        rule
    }

    /// Everything to port 53 goes into the tunnel, also to a resolver on the link.
    pub(super) fn names(family: Family, protocol: u8) -> Self {
        let mut rule = Self::new(family, 0, 1, TABLE);
        let mut ports = 53_u16.to_ne_bytes().to_vec();
        ports.extend_from_slice(&53_u16.to_ne_bytes());
        rule.0.put(RULE_PROTOCOL, &[protocol]).put(RULE_DESTINATION_PORTS, &ports);
        rule
    }

    /// A prefix that stays outside of the tunnel.
    pub(super) fn excluded(prefix: Prefix) -> Self {
        match prefix.address {
            IpAddr::V4(address) => {
                let mut rule = Self::new(Family::V4, prefix.bits, 2, TABLE_MAIN);
                rule.0.put(RULE_DESTINATION, &address.octets());
                rule
            }
            IpAddr::V6(address) => {
                let mut rule = Self::new(Family::V6, prefix.bits, 2, TABLE_MAIN);
                rule.0.put(RULE_DESTINATION, &address.octets());
                rule
            }
        }
    }

    /// Every route of the main table but its default.
    pub(super) fn specific(family: Family) -> Self {
        let mut rule = Self::new(family, 0, 3, TABLE_MAIN);
        rule.0.put_u32(RULE_SUPPRESS_PREFIX, 0);
        rule
    }

    /// The rest goes into the tunnel.
    pub(super) fn rest(family: Family) -> Self {
        Self::new(family, 0, 4, TABLE)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self(Body::with_header(bytes))
    }

    pub(super) fn add(&self, netlink: &mut Netlink) -> io::Result<()> {
        netlink.request(NEW_RULE, CREATE | EXCLUSIVE, &self.0)
    }

    /// Takes the rule away; one that is gone already is no error.
    pub(super) fn remove(&self, netlink: &mut Netlink) -> io::Result<()> {
        gone(netlink.request(DELETE_RULE, 0, &self.0))
    }
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV)) => Ok(()),
        other => other,
    }
}

/// Addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// The prefix of `bits` bits that holds `address`; `None` when the address has fewer bits.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(v4) if bits <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) if bits <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        Some(Self { address, bits })
    }

    /// Its first address.
    #[must_use]
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits its addresses share.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// Whether `address` is in it.
    #[must_use]
    pub fn holds(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Self::new(address, self.bits) == Some(self)
    }
}

/// Makes the device the default of our table. The kernel takes it away with the device.
pub(super) fn add_default(netlink: &mut Netlink, family: Family, interface: u32) -> io::Result<()> {
    // rtmsg: family, dst_len, src_len, tos, table, protocol (static), scope, type (unicast), flags
    let scope = match family {
        Family::V4 => 253,
        Family::V6 => 0,
    };
    let mut body = Body::with_header(&[family.number(), 0, 0, 0, 0, 4, scope, 1, 0, 0, 0, 0]);
    body.put_u32(ROUTE_TABLE, TABLE).put_u32(ROUTE_INTERFACE, interface);
    netlink.request(NEW_ROUTE, CREATE | EXCLUSIVE, &body)
}

/// Gives an interface a further IPv6 address, ready at once (nobody else is on the link).
pub(super) fn add_v6(netlink: &mut Netlink, interface: u32, address: Ipv6Addr, bits: u8) -> io::Result<()> {
    // ifaddrmsg: family, prefix length, flags (no duplicate detection), scope, index
    let mut header = vec![Family::V6.number(), bits, 2, 0];
    header.extend_from_slice(&interface.to_ne_bytes());
    let mut body = Body::with_header(&header);
    body.put(1, &address.octets()).put(2, &address.octets());
    netlink.request(NEW_ADDRESS, CREATE | EXCLUSIVE, &body)
}

/// Deletes an interface; one that is gone already is no error.
pub(super) fn delete_interface(netlink: &mut Netlink, index: u32) -> io::Result<()> {
    // ifinfomsg: family, padding, type, index, flags, change
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    gone(netlink.request(DELETE_LINK, 0, &Body::with_header(&header)))
}

/// The interfaces: index and name.
pub(super) fn interfaces(netlink: &mut Netlink) -> io::Result<Vec<(u32, String)>> {
    let links = netlink.dump(LIST_LINKS, &Body::with_header(&[0; 16]))?;
    let mut found = Vec::new();
    for link in links {
        let Some(index) = number(link.get(4..8)) else {
            continue;
        };
        for (kind, value) in attributes(link.get(16..).unwrap_or(&[])) {
            if kind == LINK_NAME {
                let name = value.strip_suffix(&[0]).unwrap_or(value);
                found.push((index, String::from_utf8_lossy(name).into_owned()));
            }
        }
    }
    Ok(found)
}

/// How the main table reaches an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) interface: u32,
    /// No router stands between.
    pub(super) on_link: bool,
}

/// The most specific route of the main table to `target`, the lowest metric first.
pub(super) fn way_to(netlink: &mut Netlink, target: IpAddr) -> io::Result<Option<Way>> {
    let family = if target.is_ipv4() { Family::V4 } else { Family::V6 };
    let mut best: Option<(u8, u32, Way)> = None;
    for route in routes(netlink, family)? {
        let (Some(bits), Some(kind)) = (route.get(1).copied(), route.get(7).copied()) else {
            continue;
        };
        let mut table = route.get(4).copied().map_or(0, u32::from);
        let mut destination = None;
        let mut interface = None;
        let mut metric = 0;
        let mut on_link = true;
        for (attribute, value) in attributes(route.get(12..).unwrap_or(&[])) {
            match attribute {
                ROUTE_TABLE => table = number(Some(value)).unwrap_or(table),
                ROUTE_DESTINATION => destination = address(value),
                ROUTE_INTERFACE => interface = number(Some(value)),
                ROUTE_PRIORITY => metric = number(Some(value)).unwrap_or(0),
                ROUTE_GATEWAY | ROUTE_VIA => on_link = false,
                ROUTE_MULTIPATH => {
                    // rtnexthop: length, flags, hops, index
                    interface = number(value.get(4..8));
                    on_link = false;
                }
                _ => {}
            }
        }
        let fits = match destination {
            Some(destination) => Prefix::new(destination, bits).is_some_and(|prefix| prefix.holds(target)),
            None => bits == 0,
        };
        let Some(interface) = interface else { continue };
        // Only unicast routes lead anywhere.
        if table != TABLE_MAIN || kind != 1 || !fits {
            continue;
        }
        let better = best.is_none_or(|(known, cost, _)| bits > known || (bits == known && metric < cost));
        if better {
            best = Some((bits, metric, Way { interface, on_link }));
        }
    }
    Ok(best.map(|(_, _, way)| way))
}

fn routes(netlink: &mut Netlink, family: Family) -> io::Result<Vec<Vec<u8>>> {
    let mut header = [0; 12];
    header[0] = family.number();
    netlink.dump(LIST_ROUTES, &Body::with_header(&header))
}

fn number(bytes: Option<&[u8]>) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes?.try_into().ok()?))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// Every rule, route and interface name, one a line, sorted, without what changes by itself.
pub(super) fn dump(netlink: &mut Netlink) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for family in [Family::V4, Family::V6] {
        let mut header = [0; 12];
        header[0] = family.number();
        for rule in netlink.dump(LIST_RULES, &Body::with_header(&header))? {
            lines.push(line("rule", &rule));
        }
        for route in routes(netlink, family)? {
            lines.push(line("route", &route));
        }
    }
    for (index, name) in interfaces(netlink)? {
        lines.push(format!("interface {index} {name}"));
    }
    lines.sort();
    Ok(lines)
}

fn line(what: &str, message: &[u8]) -> String {
    let (header, rest) = message.split_at(message.len().min(12));
    let mut text = format!("{what} {}", hex(header));
    for (kind, value) in attributes(rest) {
        if kind != ROUTE_CACHE || what == "rule" {
            text.push_str(&format!(" {kind}={}", hex(value)));
        }
    }
    text
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}
