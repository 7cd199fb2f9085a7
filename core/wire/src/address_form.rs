//! The two ways in which protocols write a destination.
//!
//! SOCKS form: type (1 IPv4, 3 name, 4 IPv6), address, port. Port-first form (VMess, VLESS,
//! Mux.Cool): port, type (1 IPv4, 2 name, 3 IPv6), address. Numbers are big-endian.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::{Destination, Host};

/// How a destination is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressForm {
    /// Type 1, 3 or 4, address, port.
    Socks,
    /// Port, type 1, 2 or 3, address.
    PortFirst,
    /// Type 0 (IPv4), 1 (IPv6) or 2 (name), address, port: packets of UDP over TCP.
    UdpOverTcp,
}

/// Why bytes are no destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressFormError {
    /// The type is none of the known ones.
    #[error("unknown address type {0}")]
    UnknownType(u8),
    /// The name is empty, not UTF-8, or holds a forbidden byte.
    #[error("the host name in the address is not valid")]
    BadName,
}

impl AddressForm {
    const fn types(self) -> (u8, u8, u8) {
        match self {
            Self::Socks => (1, 3, 4),
            Self::PortFirst => (1, 2, 3),
            Self::UdpOverTcp => (0, 2, 1),
        }
    }

    /// Bytes that `destination` takes.
    pub fn length(self, destination: &Destination) -> usize {
        3 + match &destination.host {
            Host::Ip(IpAddr::V4(_)) => 4,
            Host::Ip(IpAddr::V6(_)) => 16,
            Host::Name(name) => 1 + name.len().min(255),
        }
    }

    /// Appends `destination`. A name beyond 255 bytes (which [`Host::parse`] never makes) is cut.
    pub fn put(self, destination: &Destination, out: &mut Vec<u8>) {
        let (v4, name_type, v6) = self.types();
        let port = destination.port.to_be_bytes();
        if self == Self::PortFirst {
            out.extend_from_slice(&port);
        }
        match &destination.host {
            Host::Ip(IpAddr::V4(address)) => {
                out.push(v4);
                out.extend_from_slice(&address.octets());
            }
            Host::Ip(IpAddr::V6(address)) => {
                out.push(v6);
                out.extend_from_slice(&address.octets());
            }
            Host::Name(name) => {
                let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
                out.push(name_type);
                out.push(length);
                out.extend_from_slice(&name.as_bytes()[..usize::from(length)]);
            }
        }
        if self != Self::PortFirst {
            out.extend_from_slice(&port);
        }
    }

    /// Reads a destination from the front of `input`: it and its length, or `None` when more bytes
    /// are needed.
    pub fn take(self, input: &[u8]) -> Result<Option<(Destination, usize)>, AddressFormError> {
        let (v4, name_type, v6) = self.types();
        let (lead, trail) = if self == Self::PortFirst { (2, 0) } else { (0, 2) };
        let Some(&kind) = input.get(lead) else {
            return Ok(None);
        };
        let body = lead + 1;
        let (start, length) = if kind == v4 {
            (body, 4)
        } else if kind == v6 {
            (body, 16)
        } else if kind == name_type {
            let Some(&length) = input.get(body) else {
                return Ok(None);
            };
            if length == 0 {
                return Err(AddressFormError::BadName);
            }
            (body + 1, usize::from(length))
        } else {
            return Err(AddressFormError::UnknownType(kind));
        };
        let end = start + length;
        let total = end + trail;
        let (Some(address), true) = (input.get(start..end), input.len() >= total) else {
            return Ok(None);
        };
        let host = if kind == v4 {
            <[u8; 4]>::try_from(address)
                .map(|a| Host::Ip(IpAddr::V4(Ipv4Addr::from(a))))
                .map_err(|_| AddressFormError::BadName)?
        } else if kind == v6 {
            <[u8; 16]>::try_from(address)
                .map(|a| Host::Ip(IpAddr::V6(Ipv6Addr::from(a))))
                .map_err(|_| AddressFormError::BadName)?
        } else {
            // Some clients write an IP address as a name; `Host::parse` makes it an address.
            let text = std::str::from_utf8(address).map_err(|_| AddressFormError::BadName)?;
            Host::parse(text).map_err(|_| AddressFormError::BadName)?
        };
        let at = if self == Self::PortFirst { 0 } else { end };
        let port = match input.get(at..at + 2) {
            Some(bytes) => u16::from_be_bytes([bytes[0], bytes[1]]),
            None => return Ok(None),
        };
        Ok(Some((Destination::new(host, port), total)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(text: &str, port: u16) -> Destination {
        Destination::new(Host::parse(text).unwrap(), port)
    }

    #[test]
    fn each_form_reads_back_what_it_wrote() {
        let name = "a".repeat(255);
        for form in [AddressForm::Socks, AddressForm::PortFirst, AddressForm::UdpOverTcp] {
            for host in ["192.0.2.7", "2001:db8::1", "example.com", name.as_str()] {
                let destination = destination(host, 0x1234);
                let mut out = Vec::new();
                form.put(&destination, &mut out);
                assert_eq!(out.len(), form.length(&destination));
                for cut in 0..out.len() {
                    assert_eq!(form.take(&out[..cut]), Ok(None), "{form:?} {host} cut at {cut}");
                }
                out.push(9);
                assert_eq!(form.take(&out), Ok(Some((destination, out.len() - 1))));
            }
        }
    }

    #[test]
    fn the_forms_differ_as_the_protocols_do() {
        let mut out = Vec::new();
        AddressForm::Socks.put(&destination("a.b", 80), &mut out);
        assert_eq!(out, b"\x03\x03a.b\x00\x50");
        out.clear();
        AddressForm::PortFirst.put(&destination("a.b", 80), &mut out);
        assert_eq!(out, b"\x00\x50\x02\x03a.b");
        out.clear();
        AddressForm::UdpOverTcp.put(&destination("1.2.3.4", 80), &mut out);
        assert_eq!(out, [0, 1, 2, 3, 4, 0, 80]);
    }

    #[test]
    fn hostile_addresses_are_refused() {
        assert_eq!(AddressForm::Socks.take(&[2, 0, 0]), Err(AddressFormError::UnknownType(2)));
        assert_eq!(AddressForm::Socks.take(&[3, 0, 0, 80]), Err(AddressFormError::BadName));
        assert_eq!(AddressForm::Socks.take(b"\x03\x02\xff\xfe\x00\x50"), Err(AddressFormError::BadName));
        assert_eq!(AddressForm::Socks.take(b"\x03\x02a/\x00\x50"), Err(AddressFormError::BadName));
    }
}
