//! What a packet leaves to the other side of the device, and the virtio-net header that says so
//! (Virtual I/O Device specification 1.2, 5.1.6: the ten bytes of the legacy header, in the
//! machine's byte order, as Linux's TUN uses it).

/// Length of the header in front of each packet.
pub const HEADER_LEN: usize = 10;

const FLAG_NEEDS_CHECKSUM: u8 = 1;
const FLAG_DATA_VALID: u8 = 2;
const SEGMENT_NONE: u8 = 0;
const SEGMENT_TCP4: u8 = 1;
const SEGMENT_TCP6: u8 = 4;
const SEGMENT_UDP: u8 = 5;
const SEGMENT_ECN: u8 = 0x80;

/// What to cut a large packet into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// TCP segments in IPv4.
    Tcp4,
    /// TCP segments in IPv6.
    Tcp6,
    /// UDP datagrams, IPv4 or IPv6.
    Udp,
}

/// Where a checksum is to be completed: the pseudo-header's sum lies in the field already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Where the summed bytes begin, counted from the IP header.
    pub start: u16,
    /// Where the field lies, counted from `start`.
    pub field: u16,
}

/// How a large packet is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segmentation {
    /// The kind of segment.
    pub kind: SegmentKind,
    /// Payload bytes of one segment.
    pub size: u16,
    /// Bytes of headers (IP and transport) repeated in front of each segment.
    pub header_len: u16,
}

/// What a packet that is sent leaves to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Nothing.
    Complete,
    /// The checksum.
    Checksum(PartialChecksum),
    /// The checksum and the cutting.
    Segment(PartialChecksum, Segmentation),
}

/// What is known of a packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// The transport checksum needs no look: it is left out or was verified.
    pub checksum_trusted: bool,
    /// Payload bytes of each datagram, when the packet stands for several UDP datagrams.
    pub datagram_size: Option<u16>,
}

impl Arrived {
    /// A packet that is as it would be on a wire.
    pub const PLAIN: Self = Self { checksum_trusted: false, datagram_size: None };
}

/// Reads the header of a packet from the device. `None` when it has an unknown kind of segment.
pub fn decode(header: [u8; HEADER_LEN]) -> Option<Arrived> {
    let [flags, kind, _, _, size_low, size_high, ..] = header;
    let checksum_trusted = flags & (FLAG_NEEDS_CHECKSUM | FLAG_DATA_VALID) != 0;
    let size = u16::from_ne_bytes([size_low, size_high]);
    let datagram_size = match kind & !SEGMENT_ECN {
        SEGMENT_NONE | SEGMENT_TCP4 | SEGMENT_TCP6 => None,
        SEGMENT_UDP if size > 0 => Some(size),
        _ => return None,
    };
    Some(Arrived { checksum_trusted, datagram_size })
}

/// Writes the header for a packet to the device.
pub fn encode(offload: Offload) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let (checksum, segmentation) = match offload {
        Offload::Complete => return header,
        Offload::Checksum(checksum) => (checksum, None),
        Offload::Segment(checksum, segmentation) => (checksum, Some(segmentation)),
    };
    header[0] = FLAG_NEEDS_CHECKSUM;
    header[6..8].copy_from_slice(&checksum.start.to_ne_bytes());
    header[8..10].copy_from_slice(&checksum.field.to_ne_bytes());
    if let Some(segmentation) = segmentation {
        header[1] = match segmentation.kind {
            SegmentKind::Tcp4 => SEGMENT_TCP4,
            SegmentKind::Tcp6 => SEGMENT_TCP6,
            SegmentKind::Udp => SEGMENT_UDP,
        };
        header[2..4].copy_from_slice(&segmentation.header_len.to_ne_bytes());
        header[4..6].copy_from_slice(&segmentation.size.to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_of_a_tcp_super_packet() {
        let offload = Offload::Segment(
            PartialChecksum { start: 20, field: 16 },
            Segmentation { kind: SegmentKind::Tcp4, size: 1460, header_len: 40 },
        );
        let mut expected = vec![1, 1];
        for value in [40u16, 1460, 20, 16] {
            expected.extend(value.to_ne_bytes());
        }
        assert_eq!(encode(offload).as_slice(), expected);
        let arrived = decode(encode(offload)).unwrap();
        assert_eq!(arrived, Arrived { checksum_trusted: true, datagram_size: None });
    }

    #[test]
    fn unknown_segment_kinds_are_refused() {
        let mut header = [0; HEADER_LEN];
        header[1] = 3;
        assert_eq!(decode(header), None);
        header[1] = SEGMENT_UDP;
        assert_eq!(decode(header), None, "a size of zero would never end");
    }
}
