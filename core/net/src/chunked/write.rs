//! The sending half: plaintext into reserved places of one large buffer, sealed in place.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use culvert_wire::chunk::Seal;
use tokio::time::Sleep;

use crate::buffer::{Appetite, Buffer};
use crate::random::SystemRandom;
use crate::stream::Stream;

/// How long the header waits for the first payload.
const PREFIX_PATIENCE: Duration = Duration::from_millis(10);
/// The most pieces that one write names.
const PIECES: usize = 64;

pub(super) struct Writer {
    seal: Box<dyn Seal>,
    /// Goes out in front of the first payload.
    prefix: Vec<u8>,
    patience: Option<Pin<Box<Sleep>>>,
    buffer: Option<Buffer>,
    /// What is to be sent, in order, as ranges of the buffer.
    queued: VecDeque<Range<usize>>,
    /// Where the next places start.
    fresh: usize,
    /// Payload places last lent out, in all.
    lent: usize,
    appetite: Appetite,
    finished: bool,
    /// Whether the stream below may still hold written bytes.
    unflushed: bool,
}

impl Writer {
    pub(super) fn new(seal: Box<dyn Seal>) -> Self {
        Self {
            seal,
            prefix: Vec::new(),
            patience: None,
            buffer: None,
            queued: VecDeque::new(),
            fresh: 0,
            lent: 0,
            appetite: Appetite::default(),
            finished: false,
            unflushed: false,
        }
    }

    pub(super) fn set_prefix(&mut self, prefix: Vec<u8>) {
        self.prefix = prefix;
    }

    pub(super) fn is_transparent(&self) -> bool {
        self.seal.transparent()
    }

    /// Whether anything lies here that is not sent yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.prefix.is_empty() || !self.queued.is_empty() || self.unflushed
    }

    fn slot(&self) -> (usize, usize) {
        (self.seal.head(), self.seal.tail())
    }

    /// The smallest buffer that holds the prefix and one useful chunk.
    fn least(&self) -> usize {
        let (head, tail) = self.slot();
        self.fresh + self.prefix.len() + head + tail + self.seal.max_payload().min(2048)
    }

    /// Has a buffer that holds the prefix and a chunk. Only while no lent place is filled.
    fn take_buffer(&mut self) {
        let least = self.least();
        if self.buffer.as_ref().is_none_or(|b| self.queued.is_empty() && b.len() < least) {
            self.buffer = Some(Buffer::take(least, self.appetite));
        }
    }

    /// Makes the buffer hold at least `end` bytes, and keeps what lies in it.
    fn reserve(&mut self, end: usize) {
        match &mut self.buffer {
            Some(buffer) if buffer.len() >= end => {}
            buffer => {
                let mut larger = Buffer::of(end);
                if let Some(old) = buffer.take() {
                    larger[..old.len()].copy_from_slice(&old);
                }
                *buffer = Some(larger);
            }
        }
    }

    pub(super) fn poll_room<S: Stream>(&mut self, inner: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.queued.is_empty() {
            ready!(self.poll_queued(inner, cx))?;
        }
        self.take_buffer();
        Poll::Ready(Ok(()))
    }

    /// A caller is about to bring `amount` bytes at once: have a buffer that fits them if that is
    /// allowed.
    pub(super) fn expect(&mut self, amount: usize) {
        while self.queued.is_empty() && self.buffer.as_ref().is_some_and(|b| amount > b.len()) {
            let before = self.buffer.as_ref().map_or(0, |b| b.len());
            self.appetite.learn(before, before);
            self.buffer = None;
            self.take_buffer();
            if self.buffer.as_ref().map_or(0, |b| b.len()) <= before {
                break;
            }
        }
    }

    /// Payload places: the chunk's start and the payload it may hold.
    fn places(&self, length: usize, limit: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (head, tail) = self.slot();
        let most = self.seal.max_payload();
        let mut at = self.fresh + self.prefix.len();
        std::iter::from_fn(move || {
            let payload = length.checked_sub(at)?.checked_sub(head + tail)?.min(most);
            if payload == 0 {
                return None;
            }
            let place = (at, payload);
            at += head + payload + tail;
            Some(place)
        })
        .take(limit.min(self.seal.chunks_ahead().max(1)))
    }

    pub(super) fn room<'a>(&'a mut self, slices: &mut Vec<IoSliceMut<'a>>, limit: usize) {
        let head = self.seal.head();
        let places = self.places(self.buffer.as_ref().map_or(0, |b| b.len()), limit.min(PIECES));
        self.lent = 0;
        let Some(buffer) = &mut self.buffer else {
            return;
        };
        let mut rest: &'a mut [u8] = buffer;
        let mut offset = 0;
        for (at, payload) in places {
            let Some((_, tail)) = std::mem::take(&mut rest).split_at_mut_checked(at + head - offset) else {
                return;
            };
            let Some((place, tail)) = tail.split_at_mut_checked(payload) else {
                return;
            };
            offset = at + head + payload;
            rest = tail;
            self.lent += payload;
            slices.push(IoSliceMut::new(place));
        }
    }

    pub(super) fn commit(&mut self, amount: usize) {
        self.appetite.learn(amount, self.lent.max(1));
        self.seal_filled(amount);
    }

    fn seal_filled(&mut self, mut amount: usize) {
        if amount == 0 {
            return;
        }
        let (head, tail) = self.slot();
        let places = self.places(self.buffer.as_ref().map_or(0, |b| b.len()), PIECES);
        self.queue_prefix();
        let Some(buffer) = &mut self.buffer else {
            return;
        };
        for (at, place) in places {
            let payload = place.min(amount);
            let sealed = self.seal.seal(&mut buffer[at..at + head + place + tail], payload, &mut SystemRandom);
            enqueue(&mut self.queued, at..at + sealed);
            self.fresh = at + sealed;
            amount -= payload;
            if amount == 0 {
                break;
            }
        }
    }

    /// Moves the prefix to the front of the fresh part of the buffer.
    fn queue_prefix(&mut self) {
        if self.prefix.is_empty() {
            return;
        }
        let prefix = std::mem::take(&mut self.prefix);
        self.patience = None;
        let end = self.fresh + prefix.len();
        self.reserve(end);
        if let Some(buffer) = &mut self.buffer {
            buffer[self.fresh..end].copy_from_slice(&prefix);
            enqueue(&mut self.queued, self.fresh..end);
            self.fresh = end;
        }
    }

    pub(super) fn copy_from(&mut self, bufs: &[IoSlice<'_>]) -> usize {
        let mut slices = Vec::with_capacity(PIECES.min(20));
        self.room(&mut slices, PIECES);
        let amount = crate::stream::copy_slices(bufs, &mut slices);
        drop(slices);
        self.seal_filled(amount);
        amount
    }

    pub(super) fn queue(&mut self, payload: &[u8]) -> io::Result<usize> {
        if payload.is_empty() {
            return Ok(0);
        }
        if !self.queued.is_empty() {
            return Err(io::Error::other("bytes are queued already"));
        }
        self.take_buffer();
        self.expect(payload.len());
        Ok(self.copy_from(&[IoSlice::new(payload)]))
    }

    pub(super) fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let mut mark = Vec::new();
        self.seal.finish(&mut mark);
        self.queue_prefix();
        if mark.is_empty() {
            return;
        }
        let end = self.fresh + mark.len();
        self.reserve(end);
        if let Some(buffer) = &mut self.buffer {
            buffer[self.fresh..end].copy_from_slice(&mark);
            enqueue(&mut self.queued, self.fresh..end);
            self.fresh = end;
        }
    }

    /// Sends everything, the prefix included, and flushes the stream below.
    pub(super) fn poll_send<S: Stream>(&mut self, inner: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            self.queue_prefix();
        }
        ready!(self.poll_queued(inner, cx))?;
        if self.unflushed {
            ready!(Pin::new(inner).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what a reader must not wait for: the queue, and the prefix once its moment is over.
    pub(super) fn poll_waiting<S: Stream>(&mut self, inner: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() && self.queued.is_empty() {
            let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(PREFIX_PATIENCE)));
            ready!(patience.as_mut().poll(cx));
        }
        if !self.is_waiting() {
            return Poll::Ready(Ok(()));
        }
        self.poll_send(inner, cx)
    }

    fn poll_queued<S: Stream>(&mut self, inner: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queued.is_empty() {
            let Some(buffer) = &self.buffer else { break };
            let sent = if self.queued.len() == 1 || !inner.is_write_vectored() {
                let front = self.queued.front().cloned().unwrap_or(0..0);
                ready!(Pin::new(&mut *inner).poll_write(cx, &buffer[front]))?
            } else {
                let mut pieces = [IoSlice::new(&[]); PIECES];
                let count = self.queued.len().min(PIECES);
                for (piece, range) in pieces.iter_mut().zip(&self.queued) {
                    *piece = IoSlice::new(&buffer[range.clone()]);
                }
                ready!(Pin::new(&mut *inner).poll_write_vectored(cx, &pieces[..count]))?
            };
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            dequeue(&mut self.queued, sent);
        }
        self.queued.clear();
        self.fresh = 0;
        self.buffer = None;
        Poll::Ready(Ok(()))
    }
}

/// Adds a range, joined with the one before it when they touch.
fn enqueue(queued: &mut VecDeque<Range<usize>>, range: Range<usize>) {
    match queued.back_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        Some(_) | None => queued.push_back(range),
    }
}

fn dequeue(queued: &mut VecDeque<Range<usize>>, mut sent: usize) {
    while let Some(front) = queued.front_mut() {
        if sent < front.len() {
            front.start += sent;
            return;
        }
        sent -= front.len();
        queued.pop_front();
    }
}
