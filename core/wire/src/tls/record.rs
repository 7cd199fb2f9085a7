//! The record layer: records sealed and opened where they lie.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};

use super::codec::Reader;
use super::error::{TlsError, describe_alert};
use super::schedule::{Secret, Suite, derive, expand_label};
use super::session::{SessionStore, Ticket};
use crate::chunk::{Open, OpenError, Opened, Seal};
use crate::random::Random;

/// Bytes of a record's header.
pub const HEADER: usize = 5;
/// The most plaintext of one record.
pub const MAX_PLAINTEXT: usize = 16384;
/// The most bytes of one record on the wire.
pub const MAX_RECORD: usize = HEADER + MAX_PLAINTEXT + 256;

const TAG: usize = 16;
/// Content type and tag behind the plaintext.
const TRAILER: usize = 1 + TAG;
/// A KeyUpdate in a record of its own.
const KEY_UPDATE_RECORD: usize = HEADER + 5 + TRAILER;
/// The most bytes of a message after the handshake (a session ticket) that comes in pieces.
const MAX_LATE_MESSAGE: usize = 16384;

pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

/// Keys of one direction.
pub(crate) struct Keys {
    suite: Suite,
    secret: Secret,
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Keys {
    pub(crate) fn new(suite: Suite, secret: Secret) -> Result<Self, TlsError> {
        let mut key = [0; 32];
        let length = suite.aead().key_len();
        expand_label(suite, secret.as_slice(), b"key", b"", &mut key[..length]);
        let mut iv = [0; 12];
        expand_label(suite, secret.as_slice(), b"iv", b"", &mut iv);
        let unbound = UnboundKey::new(suite.aead(), &key[..length]).map_err(|_| TlsError::Crypto("record key"))?;
        zeroize::Zeroize::zeroize(&mut key);
        Ok(Self { suite, secret, key: LessSafeKey::new(unbound), iv, sequence: 0 })
    }

    /// Steps to the keys that follow a KeyUpdate.
    fn update(&mut self) -> Result<(), TlsError> {
        *self = Self::new(self.suite, derive(self.suite, &self.secret, b"traffic upd", b""))?;
        Ok(())
    }

    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, step) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= step;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals the record that lies in `record` as `header | payload | TRAILER bytes of room`.
    fn seal(&mut self, record: &mut [u8], kind: u8, payload: usize) {
        let length = (payload + TRAILER) as u16;
        record[..3].copy_from_slice(&[APPLICATION_DATA, 3, 3]);
        record[3..5].copy_from_slice(&length.to_be_bytes());
        record[HEADER + payload] = kind;
        let nonce = self.next_nonce();
        let (header, body) = record.split_at_mut(HEADER);
        let (inner, tag) = body.split_at_mut(payload + 1);
        match self.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), inner) {
            Ok(made) => tag[..TAG].copy_from_slice(made.as_ref()),
            // Only an over-long plaintext fails, and no record is that long. Nothing readable may
            // go out in any case.
            Err(_) => inner.fill(0),
        }
    }

    /// Opens the whole encrypted record in `record`; the content type and where the content lies.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> Result<(u8, Range<usize>), OpenError> {
        let nonce = self.next_nonce();
        let (header, body) = record.split_at_mut(HEADER);
        let plain = self
            .key
            .open_in_place(nonce, Aad::from(&*header), body)
            .map_err(|_| OpenError::Authentication("TLS record"))?;
        let end = plain
            .iter()
            .rposition(|byte| *byte != 0)
            .ok_or(OpenError::Malformed("a TLS record without content type"))?;
        if end > MAX_PLAINTEXT {
            return Err(OpenError::Malformed("a TLS record is longer than allowed"));
        }
        Ok((plain[end], HEADER..HEADER + end))
    }

    /// Appends a sealed record of `content`, which fits into one.
    pub(crate) fn seal_into(&mut self, out: &mut Vec<u8>, kind: u8, content: &[u8]) {
        for piece in content.chunks(MAX_PLAINTEXT) {
            let start = out.len();
            out.resize(start + HEADER, 0);
            out.extend_from_slice(piece);
            out.resize(start + HEADER + piece.len() + TRAILER, 0);
            self.seal(&mut out[start..], kind, piece.len());
        }
    }
}

/// The header of the record at the front of `input`: content type and length of the body, or how
/// many bytes are needed.
pub(crate) fn header(input: &[u8]) -> Result<Result<(u8, usize), usize>, OpenError> {
    let Some(header) = input.first_chunk::<HEADER>() else {
        return Ok(Err(HEADER));
    };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if !(CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&header[0]) || header[1] != 3 {
        return Err(OpenError::Malformed("what came is no TLS record"));
    }
    if length > MAX_RECORD - HEADER {
        return Err(OpenError::Malformed("a TLS record is longer than allowed"));
    }
    Ok(Ok((header[0], length)))
}

/// Seals what is sent after the handshake. One chunk is one record.
pub struct RecordSeal {
    keys: Keys,
    answer_update: Arc<AtomicBool>,
    max_payload: usize,
}

impl RecordSeal {
    /// Bytes in front of a record's payload.
    pub const HEAD: usize = HEADER;
    /// The most bytes behind a record's payload; a KeyUpdate may have to be squeezed in.
    pub const TAIL: usize = TRAILER + KEY_UPDATE_RECORD;

    pub(crate) fn new(keys: Keys, answer_update: Arc<AtomicBool>, max_payload: usize) -> Self {
        Self { keys, answer_update, max_payload: max_payload.clamp(64, MAX_PLAINTEXT) }
    }

    fn write_key_update(&mut self, place: &mut [u8]) {
        place[HEADER..HEADER + 5].copy_from_slice(&[24, 0, 0, 1, 0]);
        self.keys.seal(place, HANDSHAKE, 5);
        // Deriving keys fails only when memory is exhausted; the old keys would be refused then.
        if self.keys.update().is_err() {
            self.keys.sequence = 0;
        }
    }
}

impl Seal for RecordSeal {
    fn max_payload(&self) -> usize {
        self.max_payload
    }

    fn head(&self) -> usize {
        Self::HEAD
    }

    fn tail(&self) -> usize {
        Self::TAIL
    }

    fn seal(&mut self, chunk: &mut [u8], payload: usize, _random: &mut dyn Random) -> usize {
        let mut start = 0;
        if self.answer_update.swap(false, Ordering::Relaxed) || self.keys.sequence >= self.keys.suite.record_limit() {
            start = KEY_UPDATE_RECORD;
            chunk.copy_within(HEADER..HEADER + payload, start + HEADER);
            self.write_key_update(&mut chunk[..start]);
        }
        self.keys.seal(&mut chunk[start..], APPLICATION_DATA, payload);
        start + HEADER + payload + TRAILER
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.keys.seal_into(out, ALERT, &[1, 0]);
    }
}

/// What is needed to turn a NewSessionTicket into a [`Ticket`].
pub(crate) struct TicketSink {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) server_name: String,
    pub(crate) resumption: Secret,
}

/// Opens what is received after the handshake. One record is one chunk; messages of the handshake
/// protocol (tickets, key updates) are chunks without plaintext.
pub struct RecordOpen {
    keys: Keys,
    answer_update: Arc<AtomicBool>,
    tickets: Option<TicketSink>,
    late: Vec<u8>,
}

impl RecordOpen {
    pub(crate) fn new(keys: Keys, answer_update: Arc<AtomicBool>, tickets: Option<TicketSink>) -> Self {
        Self { keys, answer_update, tickets, late: Vec::new() }
    }

    fn late_messages(&mut self, bytes: &[u8]) -> Result<(), OpenError> {
        if self.late.len() + bytes.len() > MAX_LATE_MESSAGE + MAX_PLAINTEXT {
            return Err(OpenError::Malformed("a TLS message after the handshake is longer than allowed"));
        }
        self.late.extend_from_slice(bytes);
        while self.late.len() >= 4 {
            let length = usize::from(self.late[1]) << 16 | usize::from(self.late[2]) << 8 | usize::from(self.late[3]);
            if length > MAX_LATE_MESSAGE {
                return Err(OpenError::Malformed("a TLS message after the handshake is longer than allowed"));
            }
            if self.late.len() < 4 + length {
                break;
            }
            let message: Vec<u8> = self.late.drain(..4 + length).collect();
            self.late_message(message[0], &message[4..])?;
        }
        Ok(())
    }

    fn late_message(&mut self, kind: u8, body: &[u8]) -> Result<(), OpenError> {
        match kind {
            4 => {
                if let Some(sink) = &self.tickets
                    && let Some(ticket) = parse_ticket(self.keys.suite, &sink.resumption, body)
                {
                    sink.store.put(&sink.server_name, ticket);
                }
                Ok(())
            }
            24 => {
                let [request] = body else {
                    return Err(OpenError::Malformed("a TLS KeyUpdate of a wrong length"));
                };
                if *request > 1 || !self.late.is_empty() {
                    return Err(OpenError::Malformed("a TLS KeyUpdate that breaks the rules"));
                }
                if *request == 1 {
                    self.answer_update.store(true, Ordering::Relaxed);
                }
                self.keys.update().map_err(|_| OpenError::Malformed("the TLS keys could not be updated"))
            }
            _ => Err(OpenError::Malformed("an unexpected TLS message after the handshake")),
        }
    }
}

fn parse_ticket(suite: Suite, resumption: &Secret, body: &[u8]) -> Option<Ticket> {
    let mut reader = Reader::new(body);
    let lifetime_seconds = reader.u32().ok()?;
    let age_add = reader.u32().ok()?;
    let nonce = reader.vector(1).ok()?;
    let identity = reader.vector(2).ok()?.to_vec();
    (!identity.is_empty() && lifetime_seconds > 0).then(|| Ticket {
        suite,
        secret: derive(suite, resumption, b"resumption", nonce),
        identity,
        lifetime_seconds: lifetime_seconds.min(7 * 24 * 3600),
        age_add,
    })
}

impl Open for RecordOpen {
    fn max_chunk(&self) -> usize {
        MAX_RECORD
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        let (kind, length) = match header(input)? {
            Ok(header) => header,
            Err(needed) => return Ok(Opened::NeedMore(needed)),
        };
        let consumed = HEADER + length;
        if input.len() < consumed {
            return Ok(Opened::NeedMore(consumed));
        }
        if kind != APPLICATION_DATA {
            return Err(OpenError::Malformed("a TLS record that is not encrypted, after the handshake"));
        }
        let (kind, payload) = self.keys.open(&mut input[..consumed])?;
        if kind != HANDSHAKE && !self.late.is_empty() {
            return Err(OpenError::Malformed("a TLS message is interrupted by other records"));
        }
        match kind {
            APPLICATION_DATA => Ok(Opened::Chunk { consumed, payload }),
            HANDSHAKE => {
                self.late_messages(&input[payload])?;
                Ok(Opened::Chunk { consumed, payload: HEADER..HEADER })
            }
            ALERT => match input[payload] {
                [_, 0] => Ok(Opened::End { consumed }),
                [_, alert] => Err(OpenError::Malformed(describe_alert(alert))),
                _ => Err(OpenError::Malformed("a TLS alert of a wrong length")),
            },
            _ => Err(OpenError::Malformed("a TLS record of an unknown kind")),
        }
    }
}
