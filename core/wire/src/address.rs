//! Where a flow goes: a host (name or address) and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Transport protocol of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Network {
    /// A TCP stream.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A host: an IP address, or a name of 1 to 255 bytes that is no IP literal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// An IP address.
    Ip(IpAddr),
    /// A domain name as the client wrote it (case kept, no trailing-dot handling).
    Name(Arc<str>),
}

/// Why a text is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The name has no bytes.
    #[error("the host name is empty")]
    Empty,
    /// The name has more than 255 bytes.
    #[error("the host name is longer than 255 bytes")]
    TooLong,
    /// The name holds a byte that no resolver or protocol may see (control, space, slash).
    #[error("the host name holds a forbidden character")]
    ForbiddenCharacter,
}

impl Host {
    /// Parses a host; IP literals (IPv6 with or without brackets) become [`Host::Ip`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Ip(address));
        }
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > 255 {
            return Err(HostError::TooLong);
        }
        if text.bytes().any(|b| b <= b' ' || b == 0x7f || matches!(b, b'/' | b'\\' | b'@' | b'[' | b']')) {
            return Err(HostError::ForbiddenCharacter);
        }
        Ok(Self::Name(text.into()))
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Host and port. Displays as `host:port`, IPv6 in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Destination {
    /// A destination of `host` and `port`.
    pub fn new(host: Host, port: u16) -> Self {
        Self { host, port }
    }

    /// The socket address, when the host is an IP address.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match &self.host {
            Host::Ip(address) => Some(SocketAddr::new(*address, self.port)),
            Host::Name(_) => None,
        }
    }
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self::new(Host::Ip(address.ip()), address.port())
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Ip(IpAddr::V4(address)) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_addresses() {
        assert_eq!(Host::parse("[::1]"), Ok(Host::Ip("::1".parse().unwrap())));
        assert_eq!(Host::parse("192.0.2.1"), Ok(Host::Ip("192.0.2.1".parse().unwrap())));
        assert_eq!(Destination::new(Host::parse("::1").unwrap(), 443).to_string(), "[::1]:443");
    }

    #[test]
    fn bad_names_are_refused() {
        assert_eq!(Host::parse(""), Err(HostError::Empty));
        assert_eq!(Host::parse(&"a".repeat(256)), Err(HostError::TooLong));
        assert_eq!(Host::parse("a b"), Err(HostError::ForbiddenCharacter));
        assert_eq!(Host::parse("http://x"), Err(HostError::ForbiddenCharacter));
    }
}
