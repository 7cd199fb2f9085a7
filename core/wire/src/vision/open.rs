//! The receiving direction.

use super::filter::SharedFilter;
use super::{BLOCK_HEADER, Command, USER_ID};
use crate::chunk::{Open, OpenError, Opened};
use std::ops::Range;
use subtle::ConstantTimeEq;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// VLESS's answer: two bytes, then as many as the second says.
    Answer,
    /// A block's header; the first begins with the user id.
    Header,
    /// A block's content, then its padding.
    Block,
    /// Plain content inside the outer TLS.
    Sealed,
    /// Raw content.
    Direct,
}

/// Takes the padding off what is received. A record of the outer TLS is opened once and handed out
/// in as many pieces as it has blocks.
pub struct VisionOpen<O> {
    outer: O,
    phase: Phase,
    user: [u8; USER_ID],
    first: bool,
    /// Header bytes collected so far.
    header: Vec<u8>,
    /// Bytes of the answer's addons to skip.
    skip: usize,
    command: Command,
    content: usize,
    padding: usize,
    /// Decrypted bytes at the front of the input that are not handed out yet, and the bytes behind
    /// them that belong to the same record.
    plain: usize,
    trailer: usize,
    filter: SharedFilter,
}

impl<O: Open> VisionOpen<O> {
    /// The client's side: VLESS's answer comes in front of the first block.
    pub fn client(outer: O, user: [u8; USER_ID], filter: SharedFilter) -> Self {
        Self {
            outer,
            phase: Phase::Answer,
            user,
            first: true,
            header: Vec::with_capacity(USER_ID + BLOCK_HEADER),
            skip: 0,
            command: Command::Continue,
            content: 0,
            padding: 0,
            plain: 0,
            trailer: 0,
            filter,
        }
    }

    /// The server's side, after the request was read: the input begins with `plain` bytes of
    /// decrypted content that came in the request's record.
    pub fn server(outer: O, user: [u8; USER_ID], plain: usize, filter: SharedFilter) -> Self {
        Self { phase: Phase::Header, plain, ..Self::client(outer, user, filter) }
    }

    /// Takes up to `count` decrypted bytes at `at`.
    fn advance(&mut self, at: &mut usize, count: usize) -> Range<usize> {
        let taken = count.min(self.plain);
        let range = *at..*at + taken;
        *at += taken;
        self.plain -= taken;
        range
    }

    /// Collects header bytes until there are `want`.
    fn collect(&mut self, input: &[u8], at: &mut usize, want: usize) -> bool {
        let range = self.advance(at, want.saturating_sub(self.header.len()));
        self.header.extend_from_slice(&input[range]);
        self.header.len() >= want
    }

    fn block_header(&mut self) -> Result<(), OpenError> {
        let fields = if self.first { self.header.get(USER_ID..) } else { self.header.get(..) };
        let Some(&[command, content_high, content_low, padding_high, padding_low]) = fields else {
            return Err(OpenError::Malformed("Vision: a block's header has a wrong length"));
        };
        if self.first && !bool::from(self.header[..USER_ID].ct_eq(&self.user)) {
            return Err(OpenError::Malformed(
                "Vision: the first block does not carry the user id (does the server know this flow?)",
            ));
        }
        self.command = Command::from_byte(command).ok_or(OpenError::Malformed("Vision: an unknown command"))?;
        self.content = usize::from(u16::from_be_bytes([content_high, content_low]));
        self.padding = usize::from(u16::from_be_bytes([padding_high, padding_low]));
        self.first = false;
        self.header.clear();
        self.phase = Phase::Block;
        Ok(())
    }

    /// Walks through decrypted bytes at `at` until content is found or they are used up; the range
    /// of the content.
    fn walk(&mut self, input: &[u8], at: &mut usize) -> Result<Range<usize>, OpenError> {
        while self.plain > 0 || self.phase == Phase::Block {
            match self.phase {
                Phase::Answer => {
                    if self.skip > 0 {
                        let skipped = self.advance(at, self.skip).len();
                        self.skip -= skipped;
                    } else if self.collect(input, at, 2) {
                        if self.header[0] != 0 {
                            return Err(OpenError::Malformed(
                                "VLESS answer: unknown version (is this a VLESS server?)",
                            ));
                        }
                        self.skip = usize::from(self.header[1]);
                        self.header.clear();
                        if self.skip == 0 {
                            self.phase = Phase::Header;
                            continue;
                        }
                    }
                    if self.skip == 0 && self.header.is_empty() {
                        self.phase = Phase::Header;
                    }
                }
                Phase::Header => {
                    let want = BLOCK_HEADER + if self.first { USER_ID } else { 0 };
                    if self.collect(input, at, want) {
                        self.block_header()?;
                    }
                }
                Phase::Block => {
                    if self.content > 0 {
                        let range = self.advance(at, self.content);
                        self.content -= range.len();
                        self.filter.lock().observe(&input[range.clone()]);
                        return Ok(range);
                    }
                    self.padding -= self.advance(at, self.padding).len();
                    if self.padding > 0 {
                        break;
                    }
                    self.phase = match self.command {
                        Command::Continue => Phase::Header,
                        Command::End => Phase::Sealed,
                        Command::Direct => Phase::Direct,
                    };
                }
                Phase::Sealed | Phase::Direct => return Ok(self.advance(at, usize::MAX)),
            }
        }
        Ok(*at..*at)
    }
}

impl<O: Open> Open for VisionOpen<O> {
    fn max_chunk(&self) -> usize {
        self.outer.max_chunk()
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        let mut at = 0;
        if self.plain == 0 && self.trailer == 0 {
            if self.phase == Phase::Direct {
                return Ok(match input.len() {
                    0 => Opened::NeedMore(1),
                    consumed => Opened::Chunk { consumed, payload: 0..consumed },
                });
            }
            match self.outer.open(input)? {
                Opened::NeedMore(count) => return Ok(Opened::NeedMore(count)),
                Opened::End { consumed } => return Ok(Opened::End { consumed }),
                Opened::Chunk { consumed, payload } => {
                    if self.phase == Phase::Sealed {
                        return Ok(Opened::Chunk { consumed, payload });
                    }
                    at = payload.start;
                    self.plain = payload.len();
                    self.trailer = consumed - payload.end;
                }
            }
        }
        let payload = self.walk(input, &mut at)?;
        // A block may end with this record; find that out before the next one is opened, since
        // after a direct block the next bytes are no record.
        if self.plain == 0 && self.phase == Phase::Block && self.content == 0 && self.padding == 0 {
            let mut end = at;
            self.walk(input, &mut end)?;
        }
        if self.plain == 0 {
            at += std::mem::take(&mut self.trailer);
        }
        Ok(Opened::Chunk { consumed: at, payload })
    }

    fn transparent(&self) -> bool {
        self.phase == Phase::Direct && self.plain == 0 && self.trailer == 0
    }
}
