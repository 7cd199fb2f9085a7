//! The contract between a chunked, encrypted body format (VMess, Shadowsocks, VLESS encryption, …)
//! and the relay that moves its bytes without copying them.
//!
//! Writing: the relay reserves `head + payload + tail` bytes a chunk in one large buffer, lets the
//! kernel read application bytes straight into the payload places (`readv`), and then asks the
//! format to [`Seal::seal`] each chunk where it lies. Reading: the relay receives ciphertext into
//! one large buffer and asks the format to [`Open::open`] it in place; the plaintext ranges go to
//! the application with `writev`.

use std::ops::Range;

use crate::random::Random;

/// Seals one direction of a stream, chunk by chunk, in place.
pub trait Seal: Send {
    /// The most payload bytes of one chunk.
    fn max_payload(&self) -> usize;

    /// Bytes to reserve in front of each chunk's payload.
    fn head(&self) -> usize;

    /// The most bytes a chunk needs behind its payload (tag, padding).
    fn tail(&self) -> usize;

    /// Seals one chunk that lies in `chunk` as `head | payload | at least tail bytes of room`, with
    /// `payload` bytes of plaintext (1 ..= `max_payload`). Returns the bytes of `chunk`, counted
    /// from its start, that now go on the wire.
    ///
    /// `head + payload + tail` never exceeds `chunk.len()`.
    fn seal(&mut self, chunk: &mut [u8], payload: usize, random: &mut dyn Random) -> usize;

    /// Appends what the format sends to mark its end (before FIN), if it has such a mark.
    fn finish(&mut self, out: &mut Vec<u8>);

    /// How many chunks may be laid out with the present `max_payload`, `head` and `tail` before
    /// they have to be asked for again (at least 1). Formats whose sizes never change keep the
    /// default; a format about to change them (Vision while it pads) answers 1.
    fn chunks_ahead(&self) -> usize {
        usize::MAX
    }

    /// Whether, from now on, bytes go on the wire exactly as they are given (`head` and `tail` are
    /// 0 and `seal` changes nothing): the relay may then write to the socket below, once what was
    /// sealed before is sent. Never turns back to `false`.
    fn transparent(&self) -> bool {
        false
    }
}

/// What [`Open::open`] found at the front of the received bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// More bytes are needed: at least this many in all, counted from the front of the input.
    /// Nothing was consumed and nothing was changed.
    NeedMore(usize),
    /// `consumed` bytes are done with; the plaintext lies at `payload` (relative to the input, may
    /// be empty, e.g. for a header that carries no data).
    Chunk {
        /// Bytes of input that this chunk took.
        consumed: usize,
        /// Where its plaintext lies.
        payload: Range<usize>,
    },
    /// The format's own end mark, of `consumed` bytes.
    End {
        /// Bytes of input that the mark took.
        consumed: usize,
    },
}

/// Opens one direction of a stream, chunk by chunk, in place.
pub trait Open: Send {
    /// The size of the largest chunk on the wire, head and tail included: a receive buffer must
    /// hold at least this.
    fn max_chunk(&self) -> usize;

    /// Opens the chunk at the front of `input`. An implementation that has decrypted a length
    /// field but lacks the body must remember it and answer [`Opened::NeedMore`] without
    /// decrypting the field twice.
    ///
    /// The input of the next call starts where `consumed` of this one ended, with the bytes as this
    /// call left them (an implementation may hand out one decrypted record in several pieces).
    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError>;

    /// Whether, from now on, received bytes are the plaintext (`open` hands all of its input out
    /// unchanged): the relay may read from the socket below, once its buffer is empty. Never turns
    /// back to `false`.
    fn transparent(&self) -> bool {
        false
    }

    /// Called once when the byte stream underneath has ended, with the `left` bytes that no chunk
    /// was made of. Answers whether the format allows the stream to end here; the error is what
    /// the reader of the stream is to see in place of a quiet end.
    fn ended(&self, left: usize) -> Result<(), OpenError> {
        if left == 0 { Ok(()) } else { Err(OpenError::Malformed("the connection ended inside a chunk")) }
    }
}

/// Why received bytes can't be opened. Fatal for the stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// An authentication tag did not match.
    #[error("{0}: authentication failed (wrong password or key, or damaged data)")]
    Authentication(&'static str),
    /// The other side answered with something that breaks the format.
    #[error("{0}")]
    Malformed(&'static str),
    /// The other side closed the connection without an answer of its own; the text says what that
    /// usually means.
    #[error("{0}")]
    Unanswered(&'static str),
    /// The clocks differ by more than the protocol allows. `seconds` is theirs minus ours.
    #[error("the clocks of this computer and the server differ by {seconds} s; the protocol allows {allowed} s")]
    ClockSkew {
        /// Their clock minus ours.
        seconds: i64,
        /// The protocol's limit.
        allowed: u32,
    },
}
