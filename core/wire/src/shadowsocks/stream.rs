//! The chunks of a TCP stream: a sealed length, then sealed payload.

use super::Method;
use crate::aead::{Counter, Key, TAG};
use crate::chunk::{Open, OpenError, Opened, Seal};
use crate::random::Random;

/// The most payload of a chunk of the AEAD methods: the upper two bits of a length are reserved.
pub(super) const AEAD_MAX: usize = 0x3fff;

/// The most payload of a chunk that we write with a 2022 method (the format allows 65,535).
const WRITE_MAX_2022: usize = 511 * 64;

/// The sealed length, bytes.
pub(super) const LENGTH: usize = 2 + TAG;

/// Seals chunks.
pub struct StreamSeal {
    key: Key,
    counter: Counter,
    max_payload: usize,
}

impl StreamSeal {
    pub(super) fn new(method: Method, key: Key) -> Self {
        let max_payload = if method.is_2022() { WRITE_MAX_2022 } else { AEAD_MAX };
        Self { key, counter: Counter::default(), max_payload }
    }

    /// Seals `plain` as one message of its own (no length in front) and appends it.
    pub(super) fn message(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        let nonce = self.counter.next();
        self.key.seal_to(nonce, &[], plain, out);
    }

    /// Seals the first `payload` bytes of `body` in place, with the tag behind them.
    pub(super) fn body(&mut self, body: &mut [u8], payload: usize) {
        let nonce = self.counter.next();
        let tag = self.key.seal(nonce, &[], &mut body[..payload]);
        body[payload..payload + TAG].copy_from_slice(&tag);
    }

    /// Seals `payload` as chunks and appends them.
    pub(super) fn chunks(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        for piece in payload.chunks(self.max_payload) {
            self.message(&(piece.len() as u16).to_be_bytes(), out);
            self.message(piece, out);
        }
    }
}

impl Seal for StreamSeal {
    fn max_payload(&self) -> usize {
        self.max_payload
    }

    fn head(&self) -> usize {
        LENGTH
    }

    fn tail(&self) -> usize {
        TAG
    }

    fn seal(&mut self, chunk: &mut [u8], payload: usize, _random: &mut dyn Random) -> usize {
        let (head, body) = chunk.split_at_mut(LENGTH);
        head[..2].copy_from_slice(&(payload as u16).to_be_bytes());
        self.body(head, 2);
        self.body(body, payload);
        LENGTH + payload + TAG
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}
}

/// Opens chunks.
pub struct StreamOpen {
    key: Key,
    counter: Counter,
    max_payload: usize,
    /// Bytes in front of the payload that is awaited, and its length.
    awaited: Option<(usize, usize)>,
}

impl StreamOpen {
    pub(super) fn new(method: Method, key: Key) -> Self {
        let max_payload = if method.is_2022() { usize::from(u16::MAX) } else { AEAD_MAX };
        Self { key, counter: Counter::default(), max_payload, awaited: None }
    }

    /// Opens one message (ciphertext and tag) in place; its length without the tag.
    pub(super) fn message(&mut self, sealed: &mut [u8], what: &'static str) -> Result<usize, OpenError> {
        let nonce = self.counter.next();
        self.key.open(nonce, &[], sealed).map_err(|_| OpenError::Authentication(what))
    }

    /// Says that what follows is the payload of a chunk whose length came in a header.
    pub(super) fn expect(&mut self, payload: usize) {
        self.awaited = Some((0, payload));
    }
}

impl Open for StreamOpen {
    fn max_chunk(&self) -> usize {
        LENGTH + self.max_payload + TAG
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        let (head, length) = match self.awaited {
            Some(awaited) => awaited,
            None => {
                let Some(&field) = input.first_chunk::<LENGTH>() else {
                    return Ok(Opened::NeedMore(LENGTH));
                };
                let mut field = field;
                self.message(&mut field, "Shadowsocks chunk length")?;
                let length = usize::from(u16::from_be_bytes([field[0], field[1]]));
                if length > self.max_payload {
                    return Err(OpenError::Malformed("Shadowsocks: a chunk is longer than the method allows"));
                }
                self.awaited = Some((LENGTH, length));
                (LENGTH, length)
            }
        };
        let total = head + length + TAG;
        let Some(body) = input.get_mut(head..total) else {
            return Ok(Opened::NeedMore(total));
        };
        let nonce = self.counter.next();
        self.key.open(nonce, &[], body).map_err(|_| OpenError::Authentication("Shadowsocks chunk"))?;
        self.awaited = None;
        Ok(Opened::Chunk { consumed: total, payload: head..head + length })
    }

    fn ended(&self, left: usize) -> Result<(), OpenError> {
        if left == 0 && self.awaited.is_none() {
            Ok(())
        } else {
            Err(OpenError::Malformed("Shadowsocks: the connection ended inside a chunk"))
        }
    }
}
