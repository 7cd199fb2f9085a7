//! Tests.

use super::*;

fn header(v6: bool) -> Header {
    let (source, destination) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "1.2.3.4") };
    Header {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol: packet::UDP,
        payload: 0,
        end: 0,
        fragment: None,
    }
}

fn piece(identification: u32, offset: usize, more: bool) -> Fragment {
    Fragment { identification, offset, more }
}

#[test]
fn pieces_in_any_order_make_the_packet() {
    for v6 in [false, true] {
        let mut reassembly = Reassembly::default();
        let (header, now) = (header(v6), Instant::now());
        assert_eq!(reassembly.push(now, &header, piece(1, 16, false), b"end"), None);
        assert_eq!(reassembly.push(now, &header, piece(1, 0, true), b"01234567"), None);
        assert_eq!(reassembly.push(now, &header, piece(2, 8, true), b"another!"), None);
        let whole = reassembly.push(now, &header, piece(1, 8, true), b"89abcdef").unwrap();
        let parsed = packet::parse(&whole).unwrap();
        assert_eq!(parsed.fragment, None);
        assert_eq!(&whole[parsed.payload..parsed.end], b"0123456789abcdefend");
        assert_eq!(reassembly.packets.len(), 1);
        assert_eq!(reassembly.bytes, 16);
    }
}

#[test]
fn overlaps_and_contradictions_drop_the_packet() {
    let (header, now) = (header(false), Instant::now());
    let mut reassembly = Reassembly::default();
    reassembly.push(now, &header, piece(1, 0, true), b"0123456701234567");
    assert_eq!(reassembly.push(now, &header, piece(1, 8, false), b"xxxxxxxx"), None);
    assert!(reassembly.packets.is_empty(), "an overlap");
    reassembly.push(now, &header, piece(1, 8, false), b"x");
    reassembly.push(now, &header, piece(1, 16, false), b"x");
    assert!(reassembly.packets.is_empty(), "two ends");
    reassembly.push(now, &header, piece(1, 65_528, true), &[0; 64]);
    assert!(reassembly.packets.is_empty(), "beyond the largest packet");
    assert_eq!(reassembly.bytes, 0);
}

#[test]
fn memory_and_time_are_bounded() {
    let (header, now) = (header(false), Instant::now());
    let mut reassembly = Reassembly::default();
    for number in 0..10_000 {
        reassembly.push(now, &header, piece(number, 65_000, true), &[0; 8]);
    }
    assert!(reassembly.packets.len() <= MAX_PACKETS);
    let held: usize = reassembly.packets.iter().map(|partial| partial.bytes.len()).sum();
    assert_eq!(held, reassembly.bytes);
    assert!(held <= MAX_BYTES);
    reassembly.push(now + PATIENCE, &header, piece(1, 0, true), &[0; 8]);
    assert_eq!(reassembly.packets.len(), 1);
}
