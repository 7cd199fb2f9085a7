//! ICMP: echo requests are answered here, and errors that TCP, QUIC and resolvers rely on are made.

use std::net::{IpAddr, SocketAddr};

use crate::checksum;
use crate::packet::{self, Header, ICMP, ICMPV6};

const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const UNREACHABLE: u8 = 3;
const V6_UNREACHABLE: u8 = 1;
const V6_TOO_BIG: u8 = 2;
const V6_ECHO_REQUEST: u8 = 128;
const V6_ECHO_REPLY: u8 = 129;

/// Why a datagram goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody takes it (a refusal that applications see at once).
    Port,
    /// Policy forbids it.
    Prohibited,
    /// Larger than what can be carried: the largest IP packet that fits, in bytes.
    TooBig(u16),
}

/// Turns an echo request into its reply in place; false when `packet` is none.
pub(crate) fn answer_echo(packet: &mut [u8], header: &Header) -> bool {
    let v4 = header.source.is_ipv4();
    let (request, reply, protocol) =
        if v4 { (ECHO_REQUEST, ECHO_REPLY, ICMP) } else { (V6_ECHO_REQUEST, V6_ECHO_REPLY, ICMPV6) };
    let Some(message) = packet.get_mut(header.payload..header.end) else {
        return false;
    };
    if header.protocol != protocol || message.len() < 8 || message[0] != request || message[1] != 0 {
        return false;
    }
    message[0] = reply;
    message[2..4].fill(0);
    let sum = if v4 {
        checksum::of(message)
    } else {
        checksum::transport(header.destination, header.source, ICMPV6, message)
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    // Swapping the addresses leaves the IPv4 header's sum as it is.
    let (first, length) = if v4 { (12, 4) } else { (8, 16) };
    let (source, destination) = packet[first..first + 2 * length].split_at_mut(length);
    source.swap_with_slice(destination);
    true
}

/// An error about a UDP datagram of `payload_len` bytes from `source` to `destination` (of one
/// family), as its destination or a router on the way would send it.
pub(crate) fn refuse_datagram(
    source: SocketAddr,
    destination: SocketAddr,
    payload_len: usize,
    refusal: Refusal,
) -> Vec<u8> {
    let (from, to) = (destination.ip(), source.ip());
    let ip_len = packet::ip_header_len(to);
    let mut bytes = vec![0; ip_len + 8 + ip_len + 8];
    let message_len = bytes.len() - ip_len;
    let (v4, protocol) = match to {
        IpAddr::V4(_) => (true, ICMP),
        IpAddr::V6(_) => (false, ICMPV6),
    };
    packet::write_ip(&mut bytes, from, to, protocol, message_len);
    let message = &mut bytes[ip_len..];
    let (kind, code, detail) = match (refusal, v4) {
        (Refusal::Port, true) => (UNREACHABLE, 3, 0),
        (Refusal::Port, false) => (V6_UNREACHABLE, 4, 0),
        (Refusal::Prohibited, true) => (UNREACHABLE, 13, 0),
        (Refusal::Prohibited, false) => (V6_UNREACHABLE, 1, 0),
        (Refusal::TooBig(mtu), true) => (UNREACHABLE, 4, u32::from(mtu)),
        (Refusal::TooBig(mtu), false) => (V6_TOO_BIG, 0, u32::from(mtu)),
    };
    message[0] = kind;
    message[1] = code;
    message[4..8].copy_from_slice(&detail.to_be_bytes());
    let original = &mut message[8..];
    packet::write_ip(original, to, from, packet::UDP, 8 + payload_len);
    let udp = &mut original[ip_len..];
    udp[0..2].copy_from_slice(&source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&destination.port().to_be_bytes());
    udp[4..6].copy_from_slice(&((8 + payload_len) as u16).to_be_bytes());
    let sum = if v4 { checksum::of(message) } else { checksum::transport(from, to, ICMPV6, message) };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo_request(source: IpAddr, destination: IpAddr) -> Vec<u8> {
        let ip_len = packet::ip_header_len(source);
        let mut bytes = vec![0; ip_len + 12];
        let (protocol, kind) = if source.is_ipv4() { (ICMP, ECHO_REQUEST) } else { (ICMPV6, V6_ECHO_REQUEST) };
        packet::write_ip(&mut bytes, source, destination, protocol, 12);
        bytes[ip_len] = kind;
        bytes[ip_len + 8..].copy_from_slice(b"data");
        bytes
    }

    #[test]
    fn echo_is_answered_in_both_families() {
        for (source, destination) in [("10.0.0.1", "1.2.3.4"), ("fd00::1", "2001:db8::9")] {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let mut bytes = echo_request(source, destination);
            let header = packet::parse(&bytes).unwrap();
            assert!(answer_echo(&mut bytes, &header));
            let reply = packet::parse(&bytes).unwrap();
            assert_eq!((reply.source, reply.destination), (destination, source));
            let message = &bytes[reply.payload..];
            let sum = if source.is_ipv4() {
                assert_eq!(checksum::of(&bytes[..20]), 0);
                checksum::of(message)
            } else {
                checksum::transport(destination, source, ICMPV6, message)
            };
            assert_eq!(sum, 0);
            let again = packet::parse(&bytes).unwrap();
            assert!(!answer_echo(&mut bytes, &again), "a reply is not answered");
        }
    }

    #[test]
    fn refusals_quote_the_datagram() {
        let bytes = refuse_datagram(
            "10.0.0.1:4000".parse().unwrap(),
            "1.2.3.4:443".parse().unwrap(),
            1200,
            Refusal::TooBig(1280),
        );
        let header = packet::parse(&bytes).unwrap();
        let message = &bytes[header.payload..];
        assert_eq!(checksum::of(message), 0);
        assert_eq!(message[..2], [3, 4]);
        assert_eq!(message[4..8], 1280u32.to_be_bytes());
        assert_eq!(message[8 + 20..8 + 24], [0x0f, 0xa0, 0x01, 0xbb]);
    }
}
