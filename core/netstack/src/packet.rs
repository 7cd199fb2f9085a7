//! Parsing of IPv4 and IPv6 packets as far as the stack needs it. Everything is bounded and checked:
//! packets come from programs that are not trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// More extension headers than any honest packet has.
const MAX_EXTENSIONS: usize = 8;

/// The fragment part of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Identifies the packet among those of the same addresses and protocol.
    pub(crate) identification: u32,
    /// Where this piece lies in the packet's payload, in bytes.
    pub(crate) offset: usize,
    /// More pieces follow.
    pub(crate) more: bool,
}

/// An IP packet's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The protocol of the payload, behind IPv6 extension headers.
    pub(crate) protocol: u8,
    /// Where the payload begins.
    pub(crate) payload: usize,
    /// The packet's length.
    pub(crate) end: usize,
    /// Set for a piece of a fragmented packet.
    pub(crate) fragment: Option<Fragment>,
}

/// Parses the header of `packet`; `None` when it is no whole IP packet.
pub(crate) fn parse(packet: &[u8]) -> Option<Header> {
    match packet.first()? >> 4 {
        4 => parse_v4(packet),
        6 => parse_v6(packet),
        _ => None,
    }
}

fn parse_v4(packet: &[u8]) -> Option<Header> {
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let payload = usize::from(fixed[0] & 0xf) * 4;
    let end = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if payload < 20 || end < payload || end > packet.len() {
        return None;
    }
    let flags = u16::from_be_bytes([fixed[6], fixed[7]]);
    let offset = usize::from(flags & 0x1fff) * 8;
    let more = flags & 0x2000 != 0;
    let fragment = (more || offset > 0).then(|| Fragment {
        identification: u32::from(u16::from_be_bytes([fixed[4], fixed[5]])),
        offset,
        more,
    });
    Some(Header {
        source: IpAddr::V4(Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15])),
        destination: IpAddr::V4(Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19])),
        protocol: fixed[9],
        payload,
        end,
        fragment,
    })
}

fn parse_v6(packet: &[u8]) -> Option<Header> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    let end = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    if end > packet.len() {
        return None;
    }
    let source: [u8; 16] = fixed[8..24].try_into().ok()?;
    let destination: [u8; 16] = fixed[24..40].try_into().ok()?;
    let mut protocol = fixed[6];
    let mut payload = 40;
    let mut fragment = None;
    for _ in 0..MAX_EXTENSIONS {
        let length = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => (usize::from(*packet.get(payload + 1)?) + 1) * 8,
            FRAGMENT => 8,
            _ => break,
        };
        let extension = packet.get(payload..payload + length)?;
        if payload + length > end {
            return None;
        }
        if protocol == FRAGMENT {
            let place = u16::from_be_bytes([extension[2], extension[3]]);
            let piece = Fragment {
                identification: u32::from_be_bytes([extension[4], extension[5], extension[6], extension[7]]),
                offset: usize::from(place & !7),
                more: place & 1 != 0,
            };
            // A fragment that is the whole packet ("atomic", RFC 6946) is none.
            if piece.more || piece.offset > 0 {
                fragment = Some(piece);
            }
        }
        protocol = extension[0];
        payload += length;
        if fragment.is_some_and(|piece| piece.offset > 0) {
            break;
        }
    }
    Some(Header {
        source: IpAddr::V6(Ipv6Addr::from(source)),
        destination: IpAddr::V6(Ipv6Addr::from(destination)),
        protocol,
        payload,
        end,
        fragment,
    })
}

/// Whether an address names one host (no multicast, no broadcast, not unspecified).
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_multicast() || v4.is_broadcast() || v4.is_unspecified()),
        IpAddr::V6(v6) => !(v6.is_multicast() || v6.is_unspecified()),
    }
}

/// The ends of a TCP or UDP flow, as the application sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FlowKey {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

/// The ports in front of a TCP or UDP payload.
pub(crate) fn flow_key(header: &Header, payload: &[u8]) -> Option<FlowKey> {
    let ports: &[u8; 4] = payload.first_chunk()?;
    Some(FlowKey {
        source: SocketAddr::new(header.source, u16::from_be_bytes([ports[0], ports[1]])),
        destination: SocketAddr::new(header.destination, u16::from_be_bytes([ports[2], ports[3]])),
    })
}

/// What the flow table needs of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpHeader {
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) syn: bool,
    pub(crate) ack: bool,
    pub(crate) rst: bool,
    pub(crate) fin: bool,
    /// Payload bytes.
    pub(crate) payload_len: usize,
    /// The MSS option of a SYN; 536 when there is none (RFC 9293, 3.7.1).
    pub(crate) mss: u16,
}

/// Parses a TCP header.
pub(crate) fn parse_tcp(segment: &[u8]) -> Option<TcpHeader> {
    let fixed: &[u8; 20] = segment.first_chunk()?;
    let header_len = usize::from(fixed[12] >> 4) * 4;
    let mut options = segment.get(20..header_len)?;
    let flags = fixed[13];
    let mut mss = 536;
    while let [kind, rest @ ..] = options {
        match (kind, rest) {
            (0, _) => break,
            (1, _) => options = rest,
            (2, [4, high, low, ..]) => {
                mss = u16::from_be_bytes([*high, *low]);
                break;
            }
            (_, [length, ..]) if *length >= 2 => {
                options = options.get(usize::from(*length)..).unwrap_or(&[]);
            }
            _ => break,
        }
    }
    Some(TcpHeader {
        sequence: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        acknowledgement: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        syn: flags & 2 != 0,
        ack: flags & 16 != 0,
        rst: flags & 4 != 0,
        fin: flags & 1 != 0,
        payload_len: segment.len() - header_len,
        mss,
    })
}

/// Bytes of an IP header without options, of the family of `address`.
pub(crate) fn ip_header_len(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    }
}

/// Writes an IP header for `payload_len` bytes of `protocol` at the front of `buffer`; both
/// addresses are of one family. Returns its length.
pub(crate) fn write_ip(
    buffer: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    payload_len: usize,
) -> usize {
    const HOP_LIMIT: u8 = 64;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = &mut buffer[..20];
            header.fill(0);
            header[0] = 0x45;
            header[2..4].copy_from_slice(&((payload_len + 20) as u16).to_be_bytes());
            header[8] = HOP_LIMIT;
            header[9] = protocol;
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&destination.octets());
            let sum = crate::checksum::of(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            20
        }
        (source, destination) => {
            let octets = |address| match address {
                IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address).octets(),
                IpAddr::V6(address) => address.octets(),
            };
            let header = &mut buffer[..40];
            header.fill(0);
            header[0] = 0x60;
            header[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
            header[6] = protocol;
            header[7] = HOP_LIMIT;
            header[8..24].copy_from_slice(&octets(source));
            header[24..40].copy_from_slice(&octets(destination));
            40
        }
    }
}

#[cfg(test)]
mod tests;
