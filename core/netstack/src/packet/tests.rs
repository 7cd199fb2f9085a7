//! Tests.

use proptest::prelude::*;

use super::*;

fn v4(payload: &[u8], flags: u16) -> Vec<u8> {
    let (source, destination) = ("10.0.0.1".parse().unwrap(), "1.2.3.4".parse().unwrap());
    let mut bytes = vec![0; 20];
    write_ip(&mut bytes, source, destination, UDP, payload.len());
    bytes[6..8].copy_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn lengths_that_disagree_are_refused() {
    let packet = v4(b"payload!", 0);
    assert_eq!(parse(&packet).unwrap().end, packet.len());
    assert_eq!(parse(&packet[..packet.len() - 1]), None);
    assert_eq!(parse(&[]), None);
    let mut short_header = packet.clone();
    short_header[0] = 0x44;
    assert_eq!(parse(&short_header), None);
    let mut padded = packet.clone();
    padded.extend([0; 6]);
    assert_eq!(parse(&padded).unwrap().end, packet.len());
}

#[test]
fn fragments_are_seen() {
    assert_eq!(parse(&v4(b"x", 0x4000)).unwrap().fragment, None);
    let first = parse(&v4(b"x", 0x2000)).unwrap().fragment.unwrap();
    assert!(first.more && first.offset == 0);
    let last = parse(&v4(b"x", 0x0003)).unwrap().fragment.unwrap();
    assert!(!last.more && last.offset == 24);
}

#[test]
fn extension_headers_are_walked() {
    let (source, destination) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    let mut packet = vec![0; 40];
    write_ip(&mut packet, source, destination, HOP_BY_HOP, 8 + 8 + 4);
    packet.extend([FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
    // An atomic fragment: nothing before, nothing after.
    packet.extend([UDP, 0, 0, 0, 0, 0, 0, 9]);
    packet.extend([1, 2, 3, 4]);
    let header = parse(&packet).unwrap();
    assert_eq!((header.protocol, header.payload, header.fragment), (UDP, 56, None));
    packet[40] = HOP_BY_HOP;
    packet[41] = 255;
    assert_eq!(parse(&packet), None, "an extension beyond the end");
}

#[test]
fn the_mss_of_a_syn() {
    let mut segment = vec![0; 20];
    segment[12] = 5 << 4;
    segment[13] = 2;
    assert_eq!(parse_tcp(&segment).unwrap().mss, 536);
    segment[12] = 7 << 4;
    segment.extend([1, 1, 1, 1, 2, 4, 5, 0xb4]);
    let header = parse_tcp(&segment).unwrap();
    assert_eq!((header.mss, header.syn, header.payload_len), (1460, true, 0));
    // An option of length zero would never end.
    segment[20..24].copy_from_slice(&[8, 0, 8, 0]);
    assert_eq!(parse_tcp(&segment).unwrap().mss, 536);
    segment[12] = 15 << 4;
    assert_eq!(parse_tcp(&segment), None);
}

proptest! {
    #[test]
    fn nothing_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0u8..3) {
        if let (Some(first), 1..) = (bytes.first_mut(), version) {
            *first = if version == 1 { 0x45 } else { 0x60 };
        }
        if let Some(header) = parse(&bytes) {
            prop_assert!(header.payload <= header.end && header.end <= bytes.len());
            let payload = &bytes[header.payload..header.end];
            let _ = flow_key(&header, payload);
            let _ = crate::udp::parse(&header, payload, crate::offload::Arrived::PLAIN);
        }
        let _ = parse_tcp(&bytes);
    }
}
