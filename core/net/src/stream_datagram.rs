//! Datagrams inside a byte stream: one flow over one stream, framed by a codec.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use culvert_wire::chunk::{Open, Opened, Seal};
use culvert_wire::{Destination, trojan};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::datagram::{Datagram, DatagramFlow};
use crate::random::SystemRandom;
use crate::stream::BoxStream;

/// Bytes that may wait to be sent before a sender has to.
const QUEUE: usize = 256 << 10;
/// Bytes asked from the stream at once.
const READ: usize = 32 << 10;
/// The longest frame: payload, and the longest head any codec has.
const LONGEST: usize = (64 << 10) + 1024;

/// What a [`PacketCodec`] found at the front of the input.
pub enum Packet {
    /// More bytes are needed.
    NeedMore,
    /// A datagram of `consumed` bytes with its far end and payload.
    Datagram {
        /// Bytes that it took.
        consumed: usize,
        /// Its source or target.
        peer: Destination,
        /// Where its payload lies.
        payload: Range<usize>,
    },
    /// Bytes that mean nothing here.
    Skip(usize),
    /// The association is over.
    End,
}

/// Frames datagrams in a byte stream.
pub trait PacketCodec: Send + Unpin {
    /// The most payload of one datagram; larger ones are dropped.
    fn max_payload(&self) -> usize;

    /// Appends a datagram.
    fn put(&mut self, datagram: &Datagram, out: &mut Vec<u8>);

    /// Reads what lies at the front of `input`, in place.
    fn take(&mut self, input: &mut [u8]) -> io::Result<Packet>;

    /// Whether the stream may end with `left` bytes unread.
    fn ended(&self, left: usize) -> io::Result<()>;
}

/// A [`DatagramFlow`] over a stream.
pub struct StreamDatagrams<C> {
    stream: BoxStream,
    codec: C,
    out: Vec<u8>,
    sent: usize,
    input: BytesMut,
    ended: bool,
}

impl<C: PacketCodec> StreamDatagrams<C> {
    /// Datagrams over `stream`. `head` (a request) goes out in front of the first of them, and
    /// `received` was read from the stream already.
    pub fn new(stream: BoxStream, codec: C, head: Vec<u8>, received: &[u8]) -> Self {
        Self { stream, codec, out: head, sent: 0, input: BytesMut::from(received), ended: false }
    }

    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.out[self.sent..]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        self.out.clear();
        self.sent = 0;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.input.len() > LONGEST {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the other side announced an oversized datagram");
            return Poll::Ready(Err(error));
        }
        let held = self.input.len();
        self.input.resize(held + READ, 0);
        let mut space = ReadBuf::new(&mut self.input[held..]);
        let result = Pin::new(&mut self.stream).poll_read(cx, &mut space);
        let received = space.filled().len();
        self.input.truncate(held + received);
        ready!(result)?;
        Poll::Ready(Ok(received > 0))
    }
}

impl<C: PacketCodec> DatagramFlow for StreamDatagrams<C> {
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        loop {
            while self.out.len() < QUEUE {
                let Some(datagram) = batch.pop_front() else { break };
                if datagram.payload.len() <= self.codec.max_payload() {
                    self.codec.put(&datagram, &mut self.out);
                }
                taken += 1;
            }
            match self.poll_out(cx)? {
                Poll::Ready(()) if !batch.is_empty() => {}
                Poll::Ready(()) => return Poll::Ready(Ok(taken)),
                Poll::Pending if taken > 0 => return Poll::Ready(Ok(taken)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        // What waits to be sent must not wait for what is received.
        if let Poll::Ready(Err(error)) = self.poll_out(cx) {
            return Poll::Ready(Err(error));
        }
        let before = out.len();
        loop {
            while out.len() - before < limit && !self.ended && !self.input.is_empty() {
                match self.codec.take(&mut self.input)? {
                    Packet::NeedMore => break,
                    Packet::Datagram { consumed, peer, payload } => {
                        let mut datagram = self.input.split_to(consumed);
                        let _ = datagram.split_to(payload.start);
                        datagram.truncate(payload.len());
                        out.push(Datagram { peer, payload: datagram });
                    }
                    Packet::Skip(consumed) => {
                        let _ = self.input.split_to(consumed);
                    }
                    Packet::End => self.ended = true,
                }
            }
            if out.len() > before || self.ended {
                return Poll::Ready(Ok(out.len() - before));
            }
            if !ready!(self.poll_more(cx))? {
                self.ended = true;
                self.codec.ended(self.input.len())?;
            }
        }
    }
}

/// One datagram a chunk, all of them from and to one far end.
pub struct ChunkPackets {
    seal: Box<dyn Seal>,
    open: Box<dyn Open>,
    peer: Destination,
}

impl ChunkPackets {
    /// Datagrams to and from `peer`.
    pub fn new(seal: Box<dyn Seal>, open: Box<dyn Open>, peer: Destination) -> Self {
        Self { seal, open, peer }
    }
}

impl PacketCodec for ChunkPackets {
    fn max_payload(&self) -> usize {
        self.seal.max_payload()
    }

    fn put(&mut self, datagram: &Datagram, out: &mut Vec<u8>) {
        let length = datagram.payload.len();
        // An empty chunk is the end of the stream in some of these formats; peers skip it in others.
        if length == 0 {
            return;
        }
        let (start, head) = (out.len(), self.seal.head());
        out.resize(start + head, 0);
        out.extend_from_slice(&datagram.payload);
        out.resize(out.len() + self.seal.tail(), 0);
        let used = self.seal.seal(&mut out[start..], length, &mut SystemRandom);
        out.truncate(start + used);
    }

    fn take(&mut self, input: &mut [u8]) -> io::Result<Packet> {
        let opened = self.open.open(input).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(match opened {
            Opened::NeedMore(_) => Packet::NeedMore,
            Opened::Chunk { consumed, payload } if payload.is_empty() => Packet::Skip(consumed),
            Opened::Chunk { consumed, payload } => Packet::Datagram { consumed, peer: self.peer.clone(), payload },
            Opened::End { .. } => Packet::End,
        })
    }

    fn ended(&self, left: usize) -> io::Result<()> {
        self.open.ended(left).map_err(|error| io::Error::new(io::ErrorKind::UnexpectedEof, error))
    }
}

/// Trojan's datagrams, each with its far end.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrojanPackets;

impl PacketCodec for TrojanPackets {
    fn max_payload(&self) -> usize {
        trojan::MAX_DATAGRAM
    }

    fn put(&mut self, datagram: &Datagram, out: &mut Vec<u8>) {
        trojan::put_datagram(&datagram.peer, &datagram.payload, out);
    }

    fn take(&mut self, input: &mut [u8]) -> io::Result<Packet> {
        match trojan::take_datagram(input) {
            Ok(None) => Ok(Packet::NeedMore),
            Ok(Some((peer, payload))) => Ok(Packet::Datagram { consumed: payload.end, peer, payload }),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    fn ended(&self, left: usize) -> io::Result<()> {
        if left == 0 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
