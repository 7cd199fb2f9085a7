//! The Internet checksum (RFC 1071).

use std::net::IpAddr;

/// Adds `bytes` as big-endian 16-bit words. The result is unfolded.
fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    match *words.remainder() {
        [a] => sum + (u64::from(a) << 8),
        [a, b] => sum + u64::from(u16::from_be_bytes([a, b])),
        [a, b, c] => sum + u64::from(u16::from_be_bytes([a, b])) + (u64::from(c) << 8),
        _ => sum,
    }
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> u64 {
    let mut sum = u64::from(protocol) + length as u64;
    for address in [source, destination] {
        sum = match address {
            IpAddr::V4(address) => add(sum, &address.octets()),
            IpAddr::V6(address) => add(sum, &address.octets()),
        };
    }
    sum
}

/// The checksum of `bytes` alone (IPv4 header, ICMP).
pub(crate) fn of(bytes: &[u8]) -> u16 {
    !fold(add(0, bytes))
}

/// The folded sum of the pseudo-header, to be completed by the device.
pub(crate) fn partial(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> u16 {
    fold(pseudo(source, destination, protocol, length))
}

/// The whole transport checksum over the pseudo-header and `bytes`, whose own field must be zero
/// (to compute), or filled (then the result is zero when it is right).
pub(crate) fn transport(source: IpAddr, destination: IpAddr, protocol: u8, bytes: &[u8]) -> u16 {
    !fold(add(pseudo(source, destination, protocol, bytes.len()), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(of(&bytes), !0xddf2);
        assert_eq!(of(&[0x12]), !0x1200);
        assert_eq!(of(&[0x12, 0x34, 0x56]), !(0x1234 + 0x5600));
    }
}
