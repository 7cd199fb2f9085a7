//! The byte streams of the data plane.
//!
//! Every wrapper implements [`Stream`] by hand: what it can offer to the relay (its raw socket,
//! its own buffers) depends on its state, and a blanket implementation would have to lie.

use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A boxed stream.
pub type BoxStream = Box<dyn Stream>;

/// A byte stream that tells the relay what it can do beyond copying reads and writes.
///
/// Streams are created, polled and dropped on one shard (a thread with a current-thread runtime).
/// They are `Send` all the same, so that control work may hold them on its own runtime.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {
    /// The socket underneath, when bytes read from this stream from now on are exactly the bytes
    /// read from that socket (nothing buffered, nothing to decode).
    fn raw_read(&self) -> Option<&TcpStream>;

    /// The socket underneath, when bytes written from now on go to that socket unchanged and
    /// nothing is queued in front of them.
    fn raw_write(&self) -> Option<&TcpStream>;

    /// Access to the stream's own receive buffer, if it has one.
    fn lend_read(&mut self) -> Option<&mut dyn LendRead>;

    /// Access to the stream's own send buffer, if it has one.
    fn lend_write(&mut self) -> Option<&mut dyn LendWrite>;
}

/// A stream that decodes in place and lends out the plaintext.
pub trait LendRead {
    /// Waits until plaintext lies ready or the stream ends; `Ready(Ok(false))` is the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>>;

    /// The plaintext that lies ready, in order. Pushes at most `limit` slices.
    fn filled<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>, limit: usize);

    /// Marks the first `amount` bytes of [`LendRead::filled`] as taken.
    fn consume(&mut self, amount: usize);
}

/// A stream that lends out the places where plaintext is to be put, and encodes it there.
pub trait LendWrite {
    /// Waits until there is room for at least one byte (flushing what is queued as needed).
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The places for plaintext, in order (gaps between them are kept for heads and tails).
    fn room<'a>(&'a mut self, slices: &mut Vec<IoSliceMut<'a>>, limit: usize);

    /// Encodes the first `amount` bytes of the places last lent and queues them to be sent.
    fn commit(&mut self, amount: usize) -> io::Result<()>;

    /// Sends what is queued.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl Stream for TcpStream {
    fn raw_read(&self) -> Option<&TcpStream> {
        Some(self)
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        Some(self)
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        None
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        None
    }
}

impl<S: Stream + ?Sized> Stream for Box<S> {
    fn raw_read(&self) -> Option<&TcpStream> {
        (**self).raw_read()
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        (**self).raw_write()
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        (**self).lend_read()
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        (**self).lend_write()
    }
}

/// A pipe in memory, for tests and for handing a flow to ourselves.
impl Stream for tokio::io::DuplexStream {
    fn raw_read(&self) -> Option<&TcpStream> {
        None
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        None
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        None
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        None
    }
}

/// Copies from `from` to `to` as much as fits; returns the bytes copied.
pub fn copy_slices(from: &[IoSlice<'_>], to: &mut [IoSliceMut<'_>]) -> usize {
    let mut places = to.iter_mut();
    let mut place: &mut [u8] = &mut [];
    let mut copied = 0;
    for mut piece in from.iter().map(|slice| &slice[..]) {
        while !piece.is_empty() {
            if place.is_empty() {
                match places.next() {
                    Some(next) => place = next,
                    None => return copied,
                }
                continue;
            }
            let amount = piece.len().min(place.len());
            let (target, rest) = std::mem::take(&mut place).split_at_mut(amount);
            target.copy_from_slice(&piece[..amount]);
            place = rest;
            piece = &piece[amount..];
            copied += amount;
        }
    }
    copied
}
