//! Bytes that precede a direction of a stream whose rest passes unchanged.

use crate::chunk::OpenError;

/// What [`Preamble::read`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// At least this many bytes are needed, counted from the front of the input.
    NeedMore(usize),
    /// The preamble took this many bytes; what follows is payload.
    Done(usize),
}

/// A header in front of raw payload (VLESS's answer, VMess's answer when the body is not framed).
pub trait Preamble: Send {
    /// Reads the preamble at the front of `input`.
    fn read(&mut self, input: &[u8]) -> Result<Step, OpenError>;

    /// What it means when the connection ends before the preamble is complete.
    fn unanswered(&self) -> &'static str;
}
