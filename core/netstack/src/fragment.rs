//! Reassembly of fragmented packets (RFC 791, RFC 8200 4.5), within a cap: fragments cost memory
//! before anything is known about them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::packet::{self, Fragment, Header};

/// Packets in the making at one time.
const MAX_PACKETS: usize = 32;
/// Bytes of all packets in the making.
const MAX_BYTES: usize = 1 << 20;
/// Pieces of one packet: 64 KiB in pieces of the least MTU of IPv4 (68) would be more, but no link
/// under a TUN device cuts so small.
const MAX_PIECES: usize = 64;
/// How long the first piece waits for the last.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    identification: u32,
}

struct Partial {
    key: Key,
    begun: Instant,
    bytes: Vec<u8>,
    pieces: Vec<(usize, usize)>,
    total: Option<usize>,
}

/// Packets in the making.
#[derive(Default)]
pub(crate) struct Reassembly {
    packets: Vec<Partial>,
    bytes: usize,
}

impl Reassembly {
    /// Takes one piece; answers with the whole packet (a plain header and the payload) when it was
    /// the last that was missing.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        header: &Header,
        fragment: Fragment,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        self.retain(|partial| now.duration_since(partial.begun) < PATIENCE);
        let key = Key {
            source: header.source,
            destination: header.destination,
            // The protocol behind later pieces of IPv6 can't be known, and need not.
            protocol: if header.source.is_ipv4() { header.protocol } else { 0 },
            identification: fragment.identification,
        };
        let end = fragment.offset + payload.len();
        let limit = usize::from(u16::MAX) - packet::ip_header_len(header.source);
        let torn = fragment.more && !payload.len().is_multiple_of(8);
        if payload.is_empty() || torn || end > limit {
            self.retain(|partial| partial.key != key);
            return None;
        }
        let index = match self.packets.iter().position(|partial| partial.key == key) {
            Some(index) => index,
            None => {
                if self.packets.len() == MAX_PACKETS {
                    let oldest = self.packets.remove(0);
                    self.bytes -= oldest.bytes.len();
                }
                self.packets.push(Partial { key, begun: now, bytes: Vec::new(), pieces: Vec::new(), total: None });
                self.packets.len() - 1
            }
        };
        let partial = self.packets.get_mut(index)?;
        let grown = end.saturating_sub(partial.bytes.len());
        let overlaps = partial.pieces.iter().any(|&(from, to)| fragment.offset < to && from < end);
        let contradicts = partial.total.is_some_and(|total| end > total || !fragment.more)
            || (!fragment.more && partial.bytes.len() > end);
        if overlaps || contradicts || partial.pieces.len() == MAX_PIECES || self.bytes + grown > MAX_BYTES {
            // Overlapping pieces are an attack or an accident; neither deserves the packet.
            self.retain(|partial| partial.key != key);
            return None;
        }
        if grown > 0 {
            partial.bytes.resize(end, 0);
            self.bytes += grown;
        }
        partial.bytes[fragment.offset..end].copy_from_slice(payload);
        partial.pieces.push((fragment.offset, end));
        if !fragment.more {
            partial.total = Some(end);
        }
        let have: usize = partial.pieces.iter().map(|(from, to)| to - from).sum();
        if partial.total != Some(have) {
            return None;
        }
        let whole = self.packets.remove(index);
        self.bytes -= whole.bytes.len();
        let mut packet = vec![0; packet::ip_header_len(header.source)];
        packet::write_ip(&mut packet, header.source, header.destination, header.protocol, whole.bytes.len());
        packet.extend_from_slice(&whole.bytes);
        Some(packet)
    }

    fn retain(&mut self, keep: impl Fn(&Partial) -> bool) {
        let bytes = &mut self.bytes;
        self.packets.retain(|partial| {
            let kept = keep(partial);
            if !kept {
                *bytes -= partial.bytes.len();
            }
            kept
        });
    }
}

#[cfg(test)]
mod tests;
