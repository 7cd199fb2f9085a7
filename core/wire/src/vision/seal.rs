//! The sending direction.

use super::filter::SharedFilter;
use super::records::Records;
use super::{BLOCK_HEADER, Command, MAX_BLOCK, MAX_CONTENT, USER_ID};
use crate::chunk::Seal;
use crate::random::Random;

/// The most padding of a block.
const MAX_PADDING: usize = LONG_BASE + LONG_SPREAD;
const LONG_BASE: usize = 900;
const LONG_SPREAD: usize = 500;
const SHORT_SPREAD: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Padding,
    Sealed,
    Direct,
}

/// Pads what is sent until the inner handshake is over.
pub struct VisionSeal<S> {
    outer: S,
    phase: Phase,
    /// What still goes in front of the next block: the protocol's header.
    header: Vec<u8>,
    /// What still goes in front of the first block's own header.
    user: Option<[u8; USER_ID]>,
    filter: SharedFilter,
    records: Records,
}

impl<S: Seal> VisionSeal<S> {
    /// Pads over `outer`. `header` (VLESS's request or answer) goes in front of the first block,
    /// in the same record.
    pub fn new(outer: S, user: [u8; USER_ID], header: Vec<u8>, filter: SharedFilter) -> Self {
        Self { outer, phase: Phase::Padding, header, user: Some(user), filter, records: Records::default() }
    }

    /// The header and an empty, long block, sealed: what goes out when the first payload is slow to
    /// come, so that the header never travels alone.
    pub fn opening(&mut self, random: &mut dyn Random) -> Vec<u8> {
        let mut chunk = vec![0; self.head() + self.tail()];
        let sealed = self.seal_block(&mut chunk, 0, Command::Continue, true, random);
        chunk.truncate(sealed);
        chunk
    }

    fn user_length(&self) -> usize {
        if self.user.is_some() { USER_ID } else { 0 }
    }

    /// Bytes of the block in front of its content.
    fn block_head(&self) -> usize {
        self.header.len() + self.user_length() + BLOCK_HEADER
    }

    /// Seals one block whose content lies behind `head` bytes; returns the bytes on the wire.
    fn seal_block(
        &mut self,
        chunk: &mut [u8],
        content: usize,
        command: Command,
        long: bool,
        random: &mut dyn Random,
    ) -> usize {
        let start = self.outer.head();
        let block_head = self.block_head();
        let mut drawn = [0; 4];
        random.fill(&mut drawn);
        let drawn = u32::from_be_bytes(drawn) as usize;
        let padding =
            if long && content < LONG_BASE { drawn % LONG_SPREAD + LONG_BASE - content } else { drawn % SHORT_SPREAD };
        let room = self.outer.max_payload().saturating_sub(block_head + content);
        let padding = padding.min(MAX_BLOCK.saturating_sub(USER_ID + BLOCK_HEADER + content)).min(room);
        let mut at = start;
        let mut put = |bytes: &[u8]| {
            chunk[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&std::mem::take(&mut self.header));
        if let Some(user) = self.user.take() {
            put(&user);
        }
        put(&[command.byte()]);
        put(&(content as u16).to_be_bytes());
        put(&(padding as u16).to_be_bytes());
        let end = start + block_head + content;
        chunk[end..end + padding].fill(0);
        self.outer.seal(chunk, block_head + content + padding, random)
    }
}

impl<S: Seal> Seal for VisionSeal<S> {
    fn max_payload(&self) -> usize {
        match self.phase {
            Phase::Padding => MAX_CONTENT.min(self.outer.max_payload().saturating_sub(self.block_head())).max(1),
            Phase::Sealed => self.outer.max_payload(),
            Phase::Direct => usize::MAX,
        }
    }

    fn head(&self) -> usize {
        match self.phase {
            Phase::Padding => self.outer.head() + self.block_head(),
            Phase::Sealed => self.outer.head(),
            Phase::Direct => 0,
        }
    }

    fn tail(&self) -> usize {
        match self.phase {
            // The last piece may need a second record of the outer TLS.
            Phase::Padding => MAX_PADDING + self.outer.head() + 2 * self.outer.tail(),
            Phase::Sealed => self.outer.tail(),
            Phase::Direct => 0,
        }
    }

    fn seal(&mut self, chunk: &mut [u8], payload: usize, random: &mut dyn Random) -> usize {
        match self.phase {
            Phase::Padding => {}
            Phase::Sealed => return self.outer.seal(chunk, payload, random),
            Phase::Direct => return payload,
        }
        let head = self.head();
        let content = &chunk[head..head + payload];
        let (tls, newer, direct, left) = {
            let mut filter = self.filter.lock();
            filter.observe(content);
            (filter.is_tls(), filter.is_tls12_or_newer(), filter.may_go_direct(), filter.left())
        };
        let seen = self.records.follow(content);
        if tls && seen.starts_in_data && seen.last_end > 0 {
            // Padding ends behind the last complete record; what follows it in this piece goes out
            // unframed already.
            let rest = payload - seen.last_end;
            let spare = chunk.len() - rest;
            chunk.copy_within(head + seen.last_end..head + payload, spare);
            let command = if direct { Command::Direct } else { Command::End };
            let sealed = self.seal_block(&mut chunk[..spare], seen.last_end, command, true, random);
            self.phase = if direct { Phase::Direct } else { Phase::Sealed };
            if rest == 0 {
                return sealed;
            }
            if direct {
                chunk.copy_within(spare..spare + rest, sealed);
                return sealed + rest;
            }
            // Still inside the outer TLS: a record of its own, in the room that was kept for padding.
            let outer_head = self.outer.head();
            chunk.copy_within(spare..spare + rest, sealed + outer_head);
            return sealed + self.outer.seal(&mut chunk[sealed..], rest, random);
        }
        let command = if !newer && left <= 1 { Command::End } else { Command::Continue };
        let sealed = self.seal_block(chunk, payload, command, tls, random);
        if command == Command::End {
            self.phase = Phase::Sealed;
        }
        sealed
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        // Outside the outer TLS its close_notify would be read as content.
        if self.phase != Phase::Direct {
            self.outer.finish(out);
        }
    }

    fn chunks_ahead(&self) -> usize {
        match self.phase {
            Phase::Padding => 1,
            Phase::Sealed => self.outer.chunks_ahead(),
            Phase::Direct => usize::MAX,
        }
    }

    fn transparent(&self) -> bool {
        self.phase == Phase::Direct
    }
}
