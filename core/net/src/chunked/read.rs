//! The receiving half: ciphertext into one large buffer, opened in place.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use culvert_wire::chunk::{Open, Opened};
use tokio::io::ReadBuf;

use super::{Response, Step};
use crate::buffer::{Appetite, Buffer};
use crate::stream::Stream;

/// The most chunks that are opened ahead of the reader.
const READY_LIMIT: usize = 64;
/// A format that asks for more than this in one piece is broken.
const NEED_LIMIT: usize = 256 << 10;

enum Stage {
    Header(Box<dyn Response>),
    Body(Box<dyn Open>),
}

pub(super) struct Reader {
    stage: Stage,
    buffer: Option<Buffer>,
    /// Ciphertext that is not opened yet: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Plaintext in order, as ranges of the buffer.
    ready: VecDeque<Range<usize>>,
    /// Bytes in all that the next step needs.
    need: usize,
    appetite: Appetite,
    ended: bool,
}

impl Reader {
    pub(super) fn new(response: Box<dyn Response>) -> Self {
        Self {
            stage: Stage::Header(response),
            buffer: None,
            start: 0,
            end: 0,
            ready: VecDeque::new(),
            need: 1,
            appetite: Appetite::default(),
            ended: false,
        }
    }

    pub(super) fn put_back(&mut self, received: &[u8]) {
        if received.is_empty() {
            return;
        }
        let mut buffer = Buffer::take(received.len(), self.appetite);
        buffer[..received.len()].copy_from_slice(received);
        self.buffer = Some(buffer);
        (self.start, self.end) = (0, received.len());
    }

    /// Whether reads may go straight to the stream below.
    pub(super) fn is_transparent(&self) -> bool {
        !self.ended
            && self.ready.is_empty()
            && self.start == self.end
            && matches!(&self.stage, Stage::Body(open) if open.transparent())
    }

    pub(super) fn poll_fill<S: Stream>(&mut self, inner: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            if !self.ready.is_empty() {
                return Poll::Ready(Ok(true));
            }
            if self.ended {
                self.buffer = None;
                return Poll::Ready(Ok(false));
            }
            self.open()?;
            if self.ready.is_empty() && !self.ended && !ready!(self.poll_receive(inner, cx))? {
                self.ended = true;
                self.end_is_clean()?;
            }
        }
    }

    /// Opens what lies in the buffer, as far as it goes.
    fn open(&mut self) -> io::Result<()> {
        let Self { stage, buffer, start, end, ready, need, ended, .. } = self;
        let empty: &mut [u8] = &mut [];
        let bytes = buffer.as_deref_mut().unwrap_or(empty);
        if let Stage::Header(response) = stage {
            match response.step(&mut bytes[*start..*end]).map_err(io::Error::from_open)? {
                Step::NeedMore(bytes) => {
                    *need = bytes;
                    return Ok(());
                }
                Step::Done { consumed, open } => {
                    *start = (*start + consumed).min(*end);
                    *stage = Stage::Body(open);
                }
            }
        }
        let Stage::Body(open) = stage else {
            return Ok(());
        };
        *need = 1;
        while *start < *end && ready.len() < READY_LIMIT {
            match open.open(&mut bytes[*start..*end]).map_err(io::Error::from_open)? {
                Opened::NeedMore(bytes) => {
                    *need = bytes;
                    break;
                }
                Opened::Chunk { consumed, payload } => {
                    if !payload.is_empty() {
                        ready.push_back(*start + payload.start..*start + payload.end);
                    }
                    *start = (*start + consumed).min(*end);
                }
                Opened::End { consumed } => {
                    *start = (*start + consumed).min(*end);
                    *ended = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Receives once into the buffer; `false` at the end of the stream below.
    fn poll_receive<S: Stream>(&mut self, inner: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let held = self.end - self.start;
        let need = self.need.max(held + 1);
        if need > NEED_LIMIT {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the other side announced an oversized chunk",
            )));
        }
        // Find out whether there is anything before taking a buffer for it.
        if let Some(socket) = inner.raw_read() {
            if socket.poll_read_ready(cx)?.is_pending() {
                self.rest();
                return Poll::Pending;
            }
        }
        match &mut self.buffer {
            Some(buffer) if buffer.len() >= need => {
                buffer.copy_within(self.start..self.end, 0);
            }
            buffer => {
                let mut larger = Buffer::take(need, self.appetite);
                if let Some(old) = buffer.take() {
                    larger[..held].copy_from_slice(&old[self.start..self.end]);
                }
                *buffer = Some(larger);
            }
        }
        (self.start, self.end) = (0, held);
        let Some(buffer) = &mut self.buffer else {
            return Poll::Pending;
        };
        let room = buffer.len() - held;
        let mut space = ReadBuf::new(&mut buffer[held..]);
        match Pin::new(inner).poll_read(cx, &mut space) {
            Poll::Pending => {
                self.rest();
                Poll::Pending
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                let received = space.filled().len();
                self.end = held + received;
                self.appetite.learn(received, room);
                Poll::Ready(Ok(received > 0))
            }
        }
    }

    /// Nothing to do until more comes: hold no more memory than the bytes that lie here.
    fn rest(&mut self) {
        let held = self.end - self.start;
        if held == 0 {
            self.buffer = None;
            (self.start, self.end) = (0, 0);
        } else if let Some(buffer) = &mut self.buffer {
            if buffer.is_roomy_for(held) {
                let mut smaller = Buffer::of(held);
                smaller[..held].copy_from_slice(&buffer[self.start..self.end]);
                *buffer = smaller;
                (self.start, self.end) = (0, held);
            }
        }
    }

    fn end_is_clean(&self) -> io::Result<()> {
        match &self.stage {
            Stage::Header(response) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, response.closed_hint())),
            Stage::Body(open) => {
                open.ended(self.end - self.start).map_err(|error| io::Error::new(io::ErrorKind::UnexpectedEof, error))
            }
        }
    }

    pub(super) fn filled<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>, limit: usize) {
        if let Some(buffer) = &self.buffer {
            slices.extend(self.ready.iter().take(limit).map(|range| IoSlice::new(&buffer[range.clone()])));
        }
    }

    pub(super) fn copy_to(&self, buf: &mut ReadBuf<'_>) -> usize {
        let Some(buffer) = &self.buffer else { return 0 };
        let mut copied = 0;
        for range in &self.ready {
            let amount = range.len().min(buf.remaining());
            buf.put_slice(&buffer[range.start..range.start + amount]);
            copied += amount;
            if amount < range.len() {
                break;
            }
        }
        copied
    }

    pub(super) fn consume(&mut self, mut amount: usize) {
        while let Some(front) = self.ready.front_mut() {
            if amount < front.len() {
                front.start += amount;
                return;
            }
            amount -= front.len();
            self.ready.pop_front();
        }
        if self.start == self.end {
            self.buffer = None;
            (self.start, self.end) = (0, 0);
        }
    }
}

/// Turns a format's error into one of I/O that keeps it as its source.
trait FromOpen {
    fn from_open(error: culvert_wire::chunk::OpenError) -> Self;
}

impl FromOpen for io::Error {
    fn from_open(error: culvert_wire::chunk::OpenError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}
