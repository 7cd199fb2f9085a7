//! UDP: datagrams out of packets (several in one, where the device merged them) and back.

use std::net::SocketAddr;

use crate::checksum;
use crate::device::{Capabilities, MAX_PACKET};
use crate::offload::{Arrived, Offload, PartialChecksum, SegmentKind, Segmentation};
use crate::packet::{self, FlowKey, Header, UDP};

pub(crate) const HEADER_LEN: usize = 8;
/// Datagrams in one packet to the device: the kernel's own limit for a UDP super-packet.
const MAX_SEGMENTS: usize = 64;

/// The datagrams of one packet.
pub(crate) struct Datagrams<'a> {
    pub(crate) key: FlowKey,
    /// The payloads, in order.
    pub(crate) payloads: std::slice::Chunks<'a, u8>,
}

/// Reads a UDP packet; `None` when it is malformed or its checksum is wrong.
pub(crate) fn parse<'a>(header: &Header, segment: &'a [u8], arrived: Arrived) -> Option<Datagrams<'a>> {
    let fixed: &[u8; HEADER_LEN] = segment.first_chunk()?;
    let key = packet::flow_key(header, segment)?;
    let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    // A merged packet's length field may be that of the first datagram only.
    let end = if arrived.datagram_size.is_some() { segment.len() } else { length };
    let datagram = segment.get(..end)?;
    let payload = datagram.get(HEADER_LEN..)?;
    let unsummed = fixed[6..8] == [0, 0] && header.source.is_ipv4();
    if !arrived.checksum_trusted
        && !unsummed
        && checksum::transport(header.source, header.destination, UDP, datagram) != 0
    {
        return None;
    }
    let size = arrived.datagram_size.map_or(payload.len().max(1), usize::from);
    Some(Datagrams { key, payloads: payload.chunks(size) })
}

/// How many of `sizes` (payload bytes of datagrams between the same ends, in order) fit into one
/// packet to the device. At least one when there is any.
pub(crate) fn mergeable(capabilities: Capabilities, v4: bool, mut sizes: impl Iterator<Item = usize>) -> usize {
    let Some(first) = sizes.next() else { return 0 };
    if !capabilities.udp_segmentation || first == 0 {
        return 1;
    }
    let room = MAX_PACKET - HEADER_LEN - if v4 { 20 } else { 40 };
    let mut total = first;
    let mut count = 1;
    for size in sizes.take(MAX_SEGMENTS - 1) {
        if size == 0 || size > first || total + size > room {
            break;
        }
        total += size;
        count += 1;
        if size < first {
            break;
        }
    }
    count
}

/// Bytes of a packet of `payload_len` bytes in all to `to`.
pub(crate) fn packet_len(to: SocketAddr, payload_len: usize) -> usize {
    packet::ip_header_len(to.ip()) + HEADER_LEN + payload_len
}

/// Writes a packet from `from` to `to` into `buffer`, which is of [`packet_len`] bytes. `payloads`
/// are those that [`mergeable`] counted.
pub(crate) fn write<'a>(
    buffer: &mut [u8],
    capabilities: Capabilities,
    from: SocketAddr,
    to: SocketAddr,
    payloads: impl Iterator<Item = &'a [u8]>,
) -> Offload {
    let udp_len = buffer.len() - packet::ip_header_len(to.ip());
    let ip_len = packet::write_ip(buffer, from.ip(), to.ip(), UDP, udp_len);
    let datagram = &mut buffer[ip_len..];
    datagram[0..2].copy_from_slice(&from.port().to_be_bytes());
    datagram[2..4].copy_from_slice(&to.port().to_be_bytes());
    datagram[4..6].copy_from_slice(&(udp_len as u16).to_be_bytes());
    datagram[6..8].fill(0);
    let mut at = HEADER_LEN;
    let mut count = 0;
    let mut size = 0;
    for payload in payloads {
        datagram[at..at + payload.len()].copy_from_slice(payload);
        at += payload.len();
        count += 1;
        if count == 1 {
            size = payload.len();
        }
    }
    if !capabilities.checksum {
        let sum = match checksum::transport(from.ip(), to.ip(), UDP, datagram) {
            // Zero would say that there is none.
            0 => 0xffff,
            sum => sum,
        };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        return Offload::Complete;
    }
    let sum = checksum::partial(from.ip(), to.ip(), UDP, udp_len);
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    let checksum = PartialChecksum { start: ip_len as u16, field: 6 };
    if count < 2 {
        return Offload::Checksum(checksum);
    }
    Offload::Segment(
        checksum,
        Segmentation { kind: SegmentKind::Udp, size: size as u16, header_len: (ip_len + HEADER_LEN) as u16 },
    )
}

#[cfg(test)]
mod tests;
