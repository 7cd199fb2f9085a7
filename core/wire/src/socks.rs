//! SOCKS 4, 4a and 5 (RFC 1928, 1929): requests, answers, datagram headers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Destination, Host};

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// IPv4 targets only.
    V4,
    /// Names too.
    V4a,
    /// Names, IPv6, UDP, logins.
    V5,
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A stream to the target.
    Connect,
    /// A listening port at the proxy.
    Bind,
    /// A UDP association.
    UdpAssociate,
    /// Something else.
    Other(u8),
}

impl From<u8> for Command {
    fn from(byte: u8) -> Self {
        match byte {
            1 => Self::Connect,
            2 => Self::Bind,
            3 => Self::UdpAssociate,
            other => Self::Other(other),
        }
    }
}

impl From<Command> for u8 {
    fn from(command: Command) -> Self {
        match command {
            Command::Connect => 1,
            Command::Bind => 2,
            Command::UdpAssociate => 3,
            Command::Other(other) => other,
        }
    }
}

/// The answer to a request (RFC 1928 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It worked.
    Succeeded,
    /// Any failure without a code of its own.
    GeneralFailure,
    /// The proxy's rules forbid it.
    NotAllowed,
    /// The network can't be reached.
    NetworkUnreachable,
    /// The host can't be reached.
    HostUnreachable,
    /// The target refused.
    Refused,
    /// It took too long.
    TimedOut,
    /// The command is not offered.
    CommandNotSupported,
    /// The kind of address is not offered.
    AddressNotSupported,
    /// A code of no RFC.
    Other(u8),
}

impl From<u8> for Reply {
    fn from(byte: u8) -> Self {
        match byte {
            0 => Self::Succeeded,
            1 => Self::GeneralFailure,
            2 => Self::NotAllowed,
            3 => Self::NetworkUnreachable,
            4 => Self::HostUnreachable,
            5 => Self::Refused,
            6 => Self::TimedOut,
            7 => Self::CommandNotSupported,
            8 => Self::AddressNotSupported,
            other => Self::Other(other),
        }
    }
}

impl Reply {
    /// The byte on the wire.
    pub fn code(self) -> u8 {
        match self {
            Self::Succeeded => 0,
            Self::GeneralFailure => 1,
            Self::NotAllowed => 2,
            Self::NetworkUnreachable => 3,
            Self::HostUnreachable => 4,
            Self::Refused => 5,
            Self::TimedOut => 6,
            Self::CommandNotSupported => 7,
            Self::AddressNotSupported => 8,
            Self::Other(code) => code,
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Succeeded => "succeeded",
            Self::GeneralFailure => "general failure",
            Self::NotAllowed => "not allowed by the proxy's rules",
            Self::NetworkUnreachable => "network unreachable",
            Self::HostUnreachable => "host unreachable",
            Self::Refused => "connection refused",
            Self::TimedOut => "timed out",
            Self::CommandNotSupported => "command not supported",
            Self::AddressNotSupported => "address type not supported",
            Self::Other(code) => return write!(f, "code {code}"),
        })
    }
}

/// Why bytes are no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// More bytes are needed.
    #[error("the address is not complete")]
    Incomplete,
    /// The type byte is none of 1, 3, 4.
    #[error("the address type is unknown")]
    UnknownType,
    /// The name is empty or holds forbidden characters.
    #[error("the address is no host name")]
    BadName,
}

/// `type ‖ address ‖ port`, as SOCKS 5 writes it.
#[derive(Debug, Clone, Copy)]
pub enum Address {}

impl Address {
    /// Appends `destination`.
    pub fn put(destination: &Destination, out: &mut Vec<u8>) {
        match &destination.host {
            Host::Ip(IpAddr::V4(ip)) => {
                out.push(1);
                out.extend_from_slice(&ip.octets());
            }
            Host::Ip(IpAddr::V6(ip)) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            Host::Name(name) => {
                // A host name has at most 255 bytes by construction.
                let length = name.len().min(255);
                out.extend_from_slice(&[3, length as u8]);
                out.extend_from_slice(&name.as_bytes()[..length]);
            }
        }
        out.extend_from_slice(&destination.port.to_be_bytes());
    }

    /// Reads a destination; returns it and the bytes that it took. A name that is an IP literal
    /// becomes an address.
    pub fn parse(input: &[u8]) -> Result<(Destination, usize), AddressError> {
        let (kind, rest) = input.split_first().ok_or(AddressError::Incomplete)?;
        let (host, length) = match kind {
            1 => {
                let ip = rest.first_chunk::<4>().ok_or(AddressError::Incomplete)?;
                (Host::Ip(Ipv4Addr::from(*ip).into()), 4)
            }
            3 => {
                let length = usize::from(*rest.first().ok_or(AddressError::Incomplete)?);
                if length == 0 {
                    return Err(AddressError::BadName);
                }
                let name = rest.get(1..=length).ok_or(AddressError::Incomplete)?;
                let name = std::str::from_utf8(name).map_err(|_| AddressError::BadName)?;
                (Host::parse(name).map_err(|_| AddressError::BadName)?, 1 + length)
            }
            4 => {
                let ip = rest.first_chunk::<16>().ok_or(AddressError::Incomplete)?;
                (Host::Ip(Ipv6Addr::from(*ip).into()), 16)
            }
            _ => return Err(AddressError::UnknownType),
        };
        let port = rest.get(length..).and_then(|r| r.first_chunk::<2>()).ok_or(AddressError::Incomplete)?;
        Ok((Destination::new(host, u16::from_be_bytes(*port)), 1 + length + 2))
    }
}

/// A SOCKS 5 request.
pub fn request_v5(command: Command, target: &Destination) -> Vec<u8> {
    let mut out = vec![5, command.into(), 0];
    Address::put(target, &mut out);
    out
}

/// A SOCKS 5 answer with the address `bound`.
pub fn reply_v5(reply: Reply, bound: &Destination) -> Vec<u8> {
    let mut out = vec![5, reply.code(), 0];
    Address::put(bound, &mut out);
    out
}

/// How many bytes of a SOCKS 5 answer are certainly still missing; 0 when it is complete (or so
/// broken that [`parse_reply_v5`] will say so).
pub fn reply_v5_missing(answer: &[u8]) -> usize {
    let whole = match (answer.get(3), answer.get(4)) {
        (None, _) | (_, None) => 5,
        (Some(1), _) => 10,
        (Some(3), Some(length)) => 7 + usize::from(*length),
        (Some(4), _) => 22,
        (Some(_), _) => return 0,
    };
    whole - answer.len().min(whole)
}

/// Reads a complete SOCKS 5 answer. An unusable bound address (many proxies send nonsense) reads
/// as `0.0.0.0:0`.
pub fn parse_reply_v5(answer: &[u8]) -> Option<(Reply, Destination)> {
    let [5, code, _, address @ ..] = answer else {
        return None;
    };
    let bound = match Address::parse(address) {
        Ok((bound, _)) => bound,
        Err(AddressError::BadName) => Destination::new(Host::Ip(Ipv4Addr::UNSPECIFIED.into()), 0),
        Err(AddressError::Incomplete | AddressError::UnknownType) => return None,
    };
    Some(((*code).into(), bound))
}

/// A SOCKS 4 (IPv4) or 4a (name) CONNECT request; `None` for an IPv6 target.
pub fn request_v4(target: &Destination, user: &str) -> Option<Vec<u8>> {
    let mut out = vec![4, 1];
    out.extend_from_slice(&target.port.to_be_bytes());
    let name = match &target.host {
        Host::Ip(IpAddr::V4(ip)) => {
            out.extend_from_slice(&ip.octets());
            None
        }
        Host::Ip(IpAddr::V6(_)) => return None,
        Host::Name(name) => {
            out.extend_from_slice(&[0, 0, 0, 1]);
            Some(name)
        }
    };
    out.extend(user.bytes().filter(|b| *b != 0));
    out.push(0);
    if let Some(name) = name {
        out.extend_from_slice(name.as_bytes());
        out.push(0);
    }
    Some(out)
}

/// Reads the header of a SOCKS 5 datagram: its far end, and where the payload starts. `None` for
/// anything broken and for fragments, which no one sends and no one need accept (RFC 1928 §7).
pub fn parse_datagram(input: &[u8]) -> Option<(Destination, usize)> {
    let [_, _, 0, address @ ..] = input else {
        return None;
    };
    let (peer, length) = Address::parse(address).ok()?;
    Some((peer, 3 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_both_ways() {
        for text in ["1.2.3.4", "::1", "example.org"] {
            let destination = Destination::new(Host::parse(text).unwrap(), 443);
            let mut bytes = Vec::new();
            Address::put(&destination, &mut bytes);
            assert_eq!(Address::parse(&bytes), Ok((destination, bytes.len())));
            for cut in 0..bytes.len() {
                assert_eq!(Address::parse(&bytes[..cut]), Err(AddressError::Incomplete));
            }
        }
        assert_eq!(Address::parse(&[3, 0, 0, 0]), Err(AddressError::BadName));
        assert_eq!(Address::parse(&[2, 0, 0, 0]), Err(AddressError::UnknownType));
        let literal = Address::parse(b"\x03\x071.2.3.4\x00\x50").unwrap().0;
        assert_eq!(literal.host, Host::Ip("1.2.3.4".parse().unwrap()));
    }

    #[test]
    fn answers_are_read_to_their_end_and_no_further() {
        let bound = Destination::new(Host::parse("a.b").unwrap(), 7);
        let answer = reply_v5(Reply::Refused, &bound);
        let mut held = Vec::new();
        while reply_v5_missing(&held) > 0 {
            let missing = reply_v5_missing(&held);
            held.extend_from_slice(&answer[held.len()..held.len() + missing]);
        }
        assert_eq!(parse_reply_v5(&held), Some((Reply::Refused, bound)));
        assert_eq!(held, answer);
    }
}
