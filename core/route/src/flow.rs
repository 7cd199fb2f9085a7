//! What is known of a flow when a rule looks at it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use culvert_wire::Network;

/// The application protocol that the first bytes of a flow show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SniffedProtocol {
    /// A TLS ClientHello.
    Tls,
    /// An HTTP/1 request.
    Http,
    /// A QUIC Initial packet.
    Quic,
    /// BitTorrent, its UDP forms included.
    BitTorrent,
    /// STUN.
    Stun,
    /// DNS.
    Dns,
}

/// Everything that rules can ask about a flow. What is not known is `None`, and a rule that asks
/// for it does not match.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The destination's name in its normal form ([`normalise_name`]), if there is one.
    pub name: Option<&'a str>,
    /// The destination's address, if it is known (given, or resolved for an earlier rule).
    pub address: Option<IpAddr>,
    /// The destination's port.
    pub port: u16,
    /// TCP or UDP.
    pub network: Network,
    /// Who opened the flow.
    pub source: Option<SocketAddr>,
    /// The inbound it came by, by name.
    pub inbound: &'a str,
    /// What its first bytes show.
    pub protocol: Option<SniffedProtocol>,
    /// The program that opened it: full path.
    pub process_path: Option<&'a str>,
    /// The user that program runs as.
    pub user: Option<&'a str>,
    /// The name of the Wi-Fi network in use.
    pub wifi_ssid: Option<&'a str>,
    /// Local time of day in minutes since midnight.
    pub minute_of_day: Option<u16>,
}

impl<'a> Facts<'a> {
    /// The facts of a flow of which only the destination is known.
    pub fn of_name(name: &'a str, port: u16) -> Self {
        Self { name: Some(name), ..Self::nothing(port) }
    }

    /// The facts of a flow to an address.
    pub fn of_address(address: IpAddr, port: u16) -> Self {
        Self { address: Some(unmap(address)), ..Self::nothing(port) }
    }

    fn nothing(port: u16) -> Self {
        Self {
            name: None,
            address: None,
            port,
            network: Network::Tcp,
            source: None,
            inbound: "",
            protocol: None,
            process_path: None,
            user: None,
            wifi_ssid: None,
            minute_of_day: None,
        }
    }

    /// The last part of the program's path.
    pub fn process_name(&self) -> Option<&'a str> {
        self.process_path.map(|path| path.rsplit(['/', '\\']).next().unwrap_or(path))
    }
}

/// An IPv4-mapped IPv6 address becomes the IPv4 address that it stands for.
pub(crate) fn unmap(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The form in which names are compared: ASCII lower case, no trailing dot.
pub fn normalise_name(name: &str) -> Cow<'_, str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}
