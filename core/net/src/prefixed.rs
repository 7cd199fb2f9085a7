//! A stream with bytes that were already read from it put back in front.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::stream::{LendRead, LendWrite, Stream};

/// Reads `prefix` first, then the stream. Writing is untouched.
pub struct PrefixedStream<S> {
    prefix: Bytes,
    inner: S,
}

impl<S> PrefixedStream<S> {
    /// Puts `prefix` in front of what `inner` will read.
    pub fn new(prefix: Bytes, inner: S) -> Self {
        Self { prefix, inner }
    }

    /// Bytes that wait in front.
    pub fn prefix(&self) -> &Bytes {
        &self.prefix
    }

    /// Takes the waiting bytes away, so that they can be sent another way.
    pub fn take_prefix(&mut self) -> Bytes {
        std::mem::take(&mut self.prefix)
    }
}

impl<S: Stream> AsyncRead for PrefixedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        let amount = self.prefix.len().min(buf.remaining());
        buf.put_slice(&self.prefix[..amount]);
        self.prefix.advance(amount);
        if self.prefix.is_empty() {
            // The bytes may be a slice of a large buffer; let go of it.
            self.prefix = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for PrefixedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for PrefixedStream<S> {
    fn raw_read(&self) -> Option<&TcpStream> {
        if self.prefix.is_empty() { self.inner.raw_read() } else { None }
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        self.inner.raw_write()
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        if self.prefix.is_empty() { self.inner.lend_read() } else { None }
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        self.inner.lend_write()
    }
}
