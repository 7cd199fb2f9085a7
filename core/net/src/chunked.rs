//! One stream for every chunked body format: the bytes are sealed and opened where they lie.
//!
//! An adapter of a protocol gives a [`ChunkedStream`] four things: the stream below, the request
//! header ([`ChunkedStream::with_prefix`]), the [`Seal`] of what it sends and the [`Response`] step
//! that consumes the answer's header and yields the [`Open`] of what it receives. On a server the
//! same with the roles turned round.

mod answer;
mod clear;
mod read;
mod tasks;
mod write;

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use culvert_wire::chunk::{Open, OpenError, Seal};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::stream::{LendRead, LendWrite, Stream};

pub use answer::Answer;
pub use clear::Clear;
use read::Reader;
use tasks::WaitingTask;
use write::Writer;

/// What a [`Response`] step made of the received bytes.
pub enum Step {
    /// More bytes are needed: at least this many in all, counted from the front of the input.
    /// Nothing was consumed.
    NeedMore(usize),
    /// The header took `consumed` bytes; the rest is for `open`.
    Done {
        /// Bytes of input that the header took.
        consumed: usize,
        /// Opens what follows.
        open: Box<dyn Open>,
    },
}

/// Consumes what comes in front of the first chunk (the answer's header, a salt) and yields the
/// [`Open`] of the chunks behind it.
pub trait Response: Send {
    /// Looks at all bytes received so far (the same bytes again, and more, after
    /// [`Step::NeedMore`]). Must give up with an error rather than ask for more than 64 KiB.
    fn step(&mut self, input: &mut [u8]) -> Result<Step, OpenError>;

    /// What it usually means when the other side closes before the header is complete.
    fn closed_hint(&self) -> &'static str {
        "the server closed the connection without an answer"
    }
}

/// A [`Response`] of no bytes.
pub struct NoHeader(Option<Box<dyn Open>>);

impl NoHeader {
    /// The chunks start at once.
    pub fn new(open: Box<dyn Open>) -> Self {
        Self(Some(open))
    }
}

impl Response for NoHeader {
    fn step(&mut self, _input: &mut [u8]) -> Result<Step, OpenError> {
        match self.0.take() {
            Some(open) => Ok(Step::Done { consumed: 0, open }),
            None => Err(OpenError::Malformed("the stream was already opened")),
        }
    }
}

/// Any function over the received bytes is a [`Response`].
impl<F: FnMut(&mut [u8]) -> Result<Step, OpenError> + Send> Response for F {
    fn step(&mut self, input: &mut [u8]) -> Result<Step, OpenError> {
        self(input)
    }
}

/// A stream whose bytes are sealed in chunks on the way out and opened on the way in.
pub struct ChunkedStream<S> {
    inner: S,
    reader: Reader,
    writer: Writer,
    writing: WaitingTask,
    half_close: bool,
}

impl<S: Stream> ChunkedStream<S> {
    /// Seals what is written with `seal`; what is read goes through `response` first.
    pub fn new(inner: S, seal: Box<dyn Seal>, response: Box<dyn Response>) -> Self {
        Self {
            inner,
            reader: Reader::new(response),
            writer: Writer::new(seal),
            writing: WaitingTask::default(),
            half_close: true,
        }
    }

    /// Bytes (the protocol's header) that go out in one write with the first payload, or alone
    /// after a short moment when there is no payload: servers that speak first need it.
    #[must_use]
    pub fn with_prefix(mut self, prefix: Vec<u8>) -> Self {
        self.writer.set_prefix(prefix);
        self
    }

    /// For formats in which the end of the stream below means the end of both directions: a
    /// shutdown sends what is queued (and the format's end mark, if it has one) and no more.
    #[must_use]
    pub fn without_half_close(mut self) -> Self {
        self.half_close = false;
        self
    }

    /// Bytes that were already received from `inner` and are not yet opened. Call before the first
    /// read.
    #[must_use]
    pub fn with_received(mut self, received: &[u8]) -> Self {
        self.reader.put_back(received);
        self
    }

    /// Seals `payload` and queues it (with the prefix in front); it goes out with the next write,
    /// flush or read. At most one buffer's worth is taken: returns how many bytes.
    pub fn queue(&mut self, payload: &[u8]) -> io::Result<usize> {
        self.writer.queue(payload)
    }

    /// The stream below.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Sends what waits (the prefix only when its moment has passed), so that a reader never
    /// waits for an answer to bytes that lie here.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let (writer, inner) = (&mut self.writer, &mut self.inner);
        match self.writing.poll_beside(cx, |cx| writer.poll_waiting(inner, cx)) {
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }
}

impl<S: Stream> LendRead for ChunkedStream<S> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.poll_waiting(cx)?;
        self.reader.poll_fill(&mut self.inner, cx)
    }

    fn filled<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>, limit: usize) {
        self.reader.filled(slices, limit);
    }

    fn consume(&mut self, amount: usize) {
        self.reader.consume(amount);
    }
}

impl<S: Stream> LendWrite for ChunkedStream<S> {
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = self.writer.poll_room(&mut self.inner, cx);
        self.writing.note(polled, cx)
    }

    fn room<'a>(&'a mut self, slices: &mut Vec<io::IoSliceMut<'a>>, limit: usize) {
        self.writer.room(slices, limit);
    }

    fn commit(&mut self, amount: usize) -> io::Result<()> {
        self.writer.commit(amount);
        Ok(())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = self.writer.poll_send(&mut self.inner, cx);
        self.writing.note(polled, cx)
    }
}

impl<S: Stream> AsyncRead for ChunkedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.reader.is_transparent() {
            self.poll_waiting(cx)?;
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        if ready!(self.poll_fill(cx))? {
            let amount = self.reader.copy_to(buf);
            self.reader.consume(amount);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for ChunkedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if bufs.iter().all(|b| b.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        ready!(this.poll_room(cx))?;
        this.writer.expect(bufs.iter().map(|b| b.len()).sum());
        let amount = this.writer.copy_from(bufs);
        match this.writer.poll_send(&mut this.inner, cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // What could not be sent yet is queued; the next call or a flush sends it.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(amount)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.writer.finish();
        ready!(this.poll_send(cx))?;
        if !this.half_close {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for ChunkedStream<S> {
    fn raw_read(&self) -> Option<&TcpStream> {
        // While something waits to be sent, only our own reads carry it out.
        (self.reader.is_transparent() && !self.writer.is_waiting()).then(|| self.inner.raw_read()).flatten()
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        (self.writer.is_transparent() && !self.writer.is_waiting()).then(|| self.inner.raw_write()).flatten()
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        if self.reader.is_transparent() && !self.writer.is_waiting() {
            return self.inner.lend_read();
        }
        Some(self)
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        if self.writer.is_transparent() && !self.writer.is_waiting() {
            return self.inner.lend_write();
        }
        Some(self)
    }
}
