//! Tables, chains and rules in the form of nf_tables' netlink messages (linux/netfilter/nf_tables.h).

use std::io;
use std::net::IpAddr;

use super::super::netlink::CREATE;
use super::{Body, Netlink, Prefix};

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NF_TABLES: u16 = 10;
const NEW_TABLE: u16 = NF_TABLES << 8;
const GET_TABLE: u16 = NEW_TABLE | 1;
const DELETE_TABLE: u16 = NEW_TABLE | 2;
const NEW_CHAIN: u16 = NEW_TABLE | 3;
const NEW_RULE: u16 = NEW_TABLE | 6;
/// New rules are appended.
const APPEND: u16 = 0x800;
/// Both IP families.
const INET: u8 = 1;

const META_MARK: u32 = 3;
const META_FROM_DEVICE: u32 = 6;
const META_DEVICE: u32 = 7;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
const EQUAL: u32 = 0;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Drop,
    Accept,
}

impl Verdict {
    fn number(self) -> u32 {
        match self {
            Self::Drop => 0,
            Self::Accept => 1,
        }
    }
}

/// Where a chain stands on a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    Forward,
    Output,
}

impl Hook {
    fn number(self) -> u32 {
        match self {
            Self::Forward => 2,
            Self::Output => 3,
        }
    }
}

/// One condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Match {
    /// The socket's mark.
    Mark(u32),
    /// The device that the packet leaves by.
    Device(String),
    /// The device that a forwarded packet came by.
    FromDevice(String),
    /// The transport protocol.
    Protocol(u8),
    /// Its destination port; after `Protocol`.
    Port(u16),
    /// Both ports; after `Protocol`.
    Ports { source: u16, destination: u16 },
    /// A range of ICMP types; after `Protocol`.
    IcmpType { first: u8, last: u8 },
    /// The destination address.
    Destination(Prefix),
}

impl Match {
    fn write(&self, rule: &mut Body) {
        match self {
            Self::Mark(mark) => {
                meta(rule, META_MARK);
                compare(rule, EQUAL, &mark.to_ne_bytes());
            }
            Self::Device(name) => {
                meta(rule, META_DEVICE);
                compare(rule, EQUAL, &device(name));
            }
            Self::FromDevice(name) => {
                meta(rule, META_FROM_DEVICE);
                compare(rule, EQUAL, &device(name));
            }
            Self::Protocol(protocol) => {
                meta(rule, META_PROTOCOL);
                compare(rule, EQUAL, &[*protocol]);
            }
            Self::Port(port) => {
                payload(rule, TRANSPORT, 2, 2);
                compare(rule, EQUAL, &port.to_be_bytes());
            }
            Self::Ports { source, destination } => {
                let [a, b] = source.to_be_bytes();
                let [c, d] = destination.to_be_bytes();
                payload(rule, TRANSPORT, 0, 4);
                compare(rule, EQUAL, &[a, b, c, d]);
            }
            Self::IcmpType { first, last } => {
                payload(rule, TRANSPORT, 0, 1);
                compare(rule, AT_LEAST, &[*first]);
                compare(rule, AT_MOST, &[*last]);
            }
            Self::Destination(prefix) => destination(rule, *prefix),
        }
    }
}

fn destination(rule: &mut Body, prefix: Prefix) {
    let ones = |length: usize| -> Vec<u8> {
        (0..length)
            .map(|byte| {
                let bits = usize::from(prefix.bits()).saturating_sub(byte * 8).min(8);
                (0xff00_u16 >> bits) as u8
            })
            .collect()
    };
    meta(rule, META_FAMILY);
    match prefix.address() {
        IpAddr::V4(address) => {
            compare(rule, EQUAL, &[2]);
            payload(rule, NETWORK, 16, 4);
            mask(rule, &ones(4));
            compare(rule, EQUAL, &address.octets());
        }
        IpAddr::V6(address) => {
            compare(rule, EQUAL, &[10]);
            payload(rule, NETWORK, 24, 16);
            mask(rule, &ones(16));
            compare(rule, EQUAL, &address.octets());
        }
    }
}

fn device(name: &str) -> [u8; 16] {
    let mut padded = [0; 16];
    for (place, byte) in padded.iter_mut().take(15).zip(name.bytes()) {
        *place = byte;
    }
    padded
}

/// One expression of a rule: its name and what its options are.
fn expression(rule: &mut Body, name: &str, options: impl FnOnce(&mut Body)) {
    rule.nest(1, |element| {
        element.put_text(1, name).nest(2, options);
    });
}

fn meta(rule: &mut Body, key: u32) {
    expression(rule, "meta", |options| {
        options.put_u32_be(2, key).put_u32_be(1, 1);
    });
}

fn payload(rule: &mut Body, base: u32, offset: u32, length: u32) {
    expression(rule, "payload", |options| {
        options.put_u32_be(1, 1).put_u32_be(2, base).put_u32_be(3, offset).put_u32_be(4, length);
    });
}

fn compare(rule: &mut Body, operation: u32, value: &[u8]) {
    expression(rule, "cmp", |options| {
        options.put_u32_be(1, 1).put_u32_be(2, operation).nest(3, |data| {
            data.put(1, value);
        });
    });
}

fn mask(rule: &mut Body, bits: &[u8]) {
    let length = u32::try_from(bits.len()).unwrap_or(0);
    expression(rule, "bitwise", |options| {
        options
            .put_u32_be(1, 1)
            .put_u32_be(2, 1)
            .put_u32_be(3, length)
            .nest(4, |data| {
                data.put(1, bits);
            })
            .nest(5, |data| {
                data.put(1, &vec![0; bits.len()]);
            });
    });
}

fn verdict(rule: &mut Body, verdict: Verdict) {
    expression(rule, "immediate", |options| {
        options.put_u32_be(1, 0).nest(2, |data| {
            data.nest(2, |code| {
                code.put_u32_be(1, verdict.number());
            });
        });
    });
}

/// A chain and its rules, in their order.
#[derive(Debug)]
pub(super) struct Chain {
    name: &'static str,
    hook: Hook,
    policy: Verdict,
    rules: Vec<(Vec<Match>, Verdict)>,
}

impl Chain {
    pub(super) fn new(name: &'static str, hook: Hook, policy: Verdict) -> Self {
        Self { name, hook, policy, rules: Vec::new() }
    }

    pub(super) fn rule(&mut self, matches: Vec<Match>, verdict: Verdict) {
        self.rules.push((matches, verdict));
    }
}

/// A table of ours.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) chains: Vec<Chain>,
}

impl Table {
    /// Puts the table in the place of the one that has its name, in one step.
    pub(super) fn replace(&self, netlink: &mut Netlink) -> io::Result<()> {
        let mut requests = vec![
            batch(BATCH_BEGIN),
            // Deleting what is not there fails, so it is made first.
            (NEW_TABLE, CREATE, named(self.name)),
            (DELETE_TABLE, 0, named(self.name)),
            (NEW_TABLE, CREATE, named(self.name)),
        ];
        for chain in &self.chains {
            let mut body = header(INET, 0);
            body.put_text(1, self.name)
                .put_text(3, chain.name)
                .nest(4, |hook| {
                    hook.put_u32_be(1, chain.hook.number()).put_u32_be(2, 0);
                })
                .put_u32_be(5, chain.policy.number())
                .put_text(7, "filter");
            requests.push((NEW_CHAIN, CREATE, body));
        }
        for chain in &self.chains {
            for (matches, then) in &chain.rules {
                let mut body = header(INET, 0);
                body.put_text(1, self.name).put_text(2, chain.name).nest(4, |rule| {
                    for condition in matches {
                        condition.write(rule);
                    }
                    verdict(rule, *then);
                });
                requests.push((NEW_RULE, CREATE | APPEND, body));
            }
        }
        requests.push(batch(BATCH_END));
        netlink.transaction(&requests)
    }
}

/// Deletes a table; one that is gone already is no error.
pub(super) fn delete(netlink: &mut Netlink, table: &str) -> io::Result<()> {
    let requests = [batch(BATCH_BEGIN), (DELETE_TABLE, 0, named(table)), batch(BATCH_END)];
    match netlink.transaction(&requests) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether a table is there.
pub(super) fn exists(netlink: &mut Netlink, table: &str) -> io::Result<bool> {
    match netlink.request(GET_TABLE, 0, &named(table)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn header(family: u8, resource: u16) -> Body {
    let [high, low] = resource.to_be_bytes();
    Body::with_header(&[family, 0, high, low])
}

fn named(table: &str) -> Body {
    let mut body = header(INET, 0);
    body.put_text(1, table);
    body
}

fn batch(mark: u16) -> (u16, u16, Body) {
    (mark, 0, header(0, NF_TABLES))
}
