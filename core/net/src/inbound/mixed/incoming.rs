//! A client's bytes, with those read too far kept for the next step.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::prefixed::PrefixedStream;
use crate::stream::BoxStream;

pub(super) struct Incoming {
    pub(super) stream: TcpStream,
    pub(super) held: BytesMut,
}

impl Incoming {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, held: BytesMut::new() }
    }

    /// Reads more; `false` at the end.
    pub(super) async fn more(&mut self) -> io::Result<bool> {
        if self.held.capacity() == self.held.len() {
            self.held.reserve(2048);
        }
        Ok(self.stream.read_buf(&mut self.held).await? > 0)
    }

    /// The first byte, not taken; `None` when the client closes without one.
    pub(super) async fn first_byte(&mut self) -> io::Result<Option<u8>> {
        // A connection that stays idle should not hold a buffer.
        while self.held.is_empty() {
            self.stream.readable().await?;
            if !self.more().await? {
                return Ok(None);
            }
        }
        Ok(self.held.first().copied())
    }

    /// Takes exactly `amount` bytes.
    pub(super) async fn take(&mut self, amount: usize) -> io::Result<BytesMut> {
        while self.held.len() < amount {
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.held.split_to(amount))
    }

    /// Takes up to and without a zero byte, at most 255 bytes.
    pub(super) async fn take_text(&mut self) -> io::Result<BytesMut> {
        loop {
            if let Some(end) = self.held.iter().take(256).position(|b| *b == 0) {
                let text = self.held.split_to(end);
                let _zero = self.held.split_to(1);
                return Ok(text);
            }
            if self.held.len() > 255 {
                return Err(super::malformed("a text of a SOCKS 4 request is longer than 255 bytes"));
            }
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Says a last word and closes, reading what is on its way so that the word is not lost to a
    /// reset.
    pub(super) async fn send_last(mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.shutdown().await?;
        let mut ignored = [0; 1024];
        let drain = async {
            for _ in 0..64 {
                if self.stream.read(&mut ignored).await? == 0 {
                    break;
                }
            }
            Ok(())
        };
        tokio::time::timeout(std::time::Duration::from_secs(1), drain).await.unwrap_or(Ok(()))
    }

    /// The stream from here on.
    pub(super) fn into_stream(self) -> BoxStream {
        if self.held.is_empty() {
            Box::new(self.stream)
        } else {
            Box::new(PrefixedStream::new(self.held.freeze(), self.stream))
        }
    }
}
