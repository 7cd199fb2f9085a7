//! Tests.

use super::*;

const OFFLOADED: Capabilities =
    Capabilities { mtu: 1500, checksum: true, tcp_segmentation: true, udp_segmentation: true };

fn ends(v6: bool) -> (SocketAddr, SocketAddr) {
    let (from, to) = if v6 { ("[fd00::9]:53", "[fd00::1]:4000") } else { ("1.2.3.4:53", "10.0.0.1:4000") };
    (from.parse().unwrap(), to.parse().unwrap())
}

#[test]
fn what_is_written_is_read_back() {
    for v6 in [false, true] {
        let (from, to) = ends(v6);
        let mut bytes = vec![0; packet_len(to, 5)];
        let payloads = [&b"hello"[..]];
        let offload = write(&mut bytes, Capabilities::plain(1500), from, to, payloads.into_iter());
        assert_eq!(offload, Offload::Complete);
        let header = packet::parse(&bytes).unwrap();
        let segment = &bytes[header.payload..header.end];
        let read = parse(&header, segment, Arrived::PLAIN).unwrap();
        assert_eq!(read.key, FlowKey { source: from, destination: to });
        assert_eq!(read.payloads.collect::<Vec<_>>(), payloads);
        let mut damaged = segment.to_vec();
        damaged[9] ^= 1;
        assert!(parse(&header, &damaged, Arrived::PLAIN).is_none());
    }
}

#[test]
fn equal_datagrams_share_a_packet() {
    let sizes = |sizes: &[usize]| mergeable(OFFLOADED, true, sizes.iter().copied());
    assert_eq!(sizes(&[]), 0);
    assert_eq!(sizes(&[1200, 1200, 700, 1200]), 3);
    assert_eq!(sizes(&[1200, 1300]), 1);
    assert_eq!(sizes(&[0, 0]), 1);
    assert_eq!(sizes(&[1200, 0]), 1);
    assert_eq!(sizes(&[100; 200]), MAX_SEGMENTS);
    assert_eq!(sizes(&[30_000; 4]), 2);
    assert_eq!(mergeable(Capabilities::plain(1500), true, [9, 9].into_iter()), 1);
}

#[test]
fn merged_datagrams_are_taken_apart() {
    let (from, to) = ends(true);
    let payloads = [&b"first"[..], b"secon", b"3rd"];
    let mut bytes = vec![0; packet_len(to, 13)];
    let offload = write(&mut bytes, OFFLOADED, from, to, payloads.into_iter());
    let Offload::Segment(_, segmentation) = offload else { panic!("{offload:?}") };
    assert_eq!((segmentation.size, segmentation.header_len), (5, 48));
    let header = packet::parse(&bytes).unwrap();
    let arrived = Arrived { checksum_trusted: true, datagram_size: Some(5) };
    let read = parse(&header, &bytes[header.payload..header.end], arrived).unwrap();
    assert_eq!(read.payloads.collect::<Vec<_>>(), payloads);
}
