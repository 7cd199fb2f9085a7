//! UDP through an outbound: batches of datagrams, never forced through a byte stream interface.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use culvert_wire::Destination;

/// One datagram and its far end: the target when sent, the source when received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Target (sending) or source (receiving). A source is given as the name that was sent to,
    /// where the protocol answers by name.
    pub peer: Destination,
    /// The payload.
    pub payload: BytesMut,
}

/// A UDP association through an outbound: one local endpoint that talks to any number of targets
/// (endpoint-independent mapping where the protocol allows it).
pub trait DatagramFlow: Send + Unpin {
    /// Sends datagrams from the front of `batch`, as many as can be sent now, removing them.
    /// `Ready(Ok(n))` with n ≥ 1, or `Pending` when none can be sent. A datagram that is too large
    /// for the protocol is dropped and counted as sent.
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>>;

    /// Receives up to `limit` datagrams into `out`; `Ready(Ok(0))` is the end of the association.
    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>>;
}

/// A boxed association.
pub type BoxDatagramFlow = Box<dyn DatagramFlow>;
