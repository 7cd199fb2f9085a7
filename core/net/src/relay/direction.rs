//! One direction of a relay.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use crate::buffer::{Appetite, Buffer};
use crate::stream::{Stream, copy_slices};

/// Bytes after which a direction lets others run.
const TURN: usize = 2 << 20;
/// The most places or pieces in one system call.
const SLICES: usize = 64;

pub(super) struct Failure {
    pub(super) reading: bool,
    pub(super) error: io::Error,
}

fn reading(error: io::Error) -> Failure {
    Failure { reading: true, error }
}

fn writing(error: io::Error) -> Failure {
    Failure { reading: false, error }
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum State {
    #[default]
    Running,
    /// The source has ended; its end is being passed on.
    Closing,
    Done,
}

/// What one round came to.
enum Round {
    Moved(usize),
    Ended,
}

#[derive(Default)]
pub(super) struct Direction {
    state: State,
    /// Our own buffer with `held` bytes that the sink has not taken yet.
    held: Option<(Buffer, std::ops::Range<usize>)>,
    appetite: Appetite,
    /// The sink may hold bytes that it was given.
    unflushed: bool,
    #[cfg(target_os = "linux")]
    pipe: super::splice::Splice,
}

type Polled<T> = Poll<Result<T, Failure>>;

impl Direction {
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub(super) fn poll<A, B>(&mut self, cx: &mut Context<'_>, from: &mut A, to: &mut B, count: &AtomicU64) -> Polled<()>
    where
        A: Stream + ?Sized,
        B: Stream + ?Sized,
    {
        let mut moved = 0;
        while self.state == State::Running {
            match self.poll_round(cx, from, to, count) {
                Poll::Ready(Ok(Round::Moved(amount))) => {
                    moved += amount;
                    if moved >= TURN {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Poll::Ready(Ok(Round::Ended)) => self.state = State::Closing,
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return self.poll_flush(cx, to),
            }
        }
        if self.state == State::Closing {
            match ready!(Pin::new(&mut *to).poll_shutdown(cx)) {
                Ok(()) => {}
                // The other side has gone already; there is no one to tell.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
                Err(error) => return Poll::Ready(Err(writing(error))),
            }
            self.state = State::Done;
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing to read: let the sink send what it holds.
    fn poll_flush<B: Stream + ?Sized>(&mut self, cx: &mut Context<'_>, to: &mut B) -> Polled<()> {
        if self.unflushed && self.held.is_none() {
            ready!(Pin::new(to).poll_flush(cx)).map_err(writing)?;
            self.unflushed = false;
        }
        Poll::Pending
    }

    fn poll_round<A, B>(&mut self, cx: &mut Context<'_>, from: &mut A, to: &mut B, count: &AtomicU64) -> Polled<Round>
    where
        A: Stream + ?Sized,
        B: Stream + ?Sized,
    {
        if self.held.is_some() {
            ready!(self.poll_held(cx, to, count))?;
            return Poll::Ready(Ok(Round::Moved(0)));
        }
        #[cfg(target_os = "linux")]
        if self.pipe.is_possible() {
            if let (Some(source), Some(sink)) = (from.raw_read(), to.raw_write()) {
                if let Some(result) = self.pipe.poll(cx, source, sink, count) {
                    return result.map_ok(|amount| if amount == 0 { Round::Ended } else { Round::Moved(amount) });
                }
            }
        }
        if to.lend_write().is_some() {
            return self.poll_into_places(cx, from, to, count);
        }
        if from.lend_read().is_some() {
            return self.poll_from_lent(cx, from, to, count);
        }
        self.poll_through_own(cx, from, to, count)
    }

    /// The sink encodes in its own buffer: put the bytes where it wants them.
    fn poll_into_places<A, B>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut A,
        to: &mut B,
        count: &AtomicU64,
    ) -> Polled<Round>
    where
        A: Stream + ?Sized,
        B: Stream + ?Sized,
    {
        // First what it still has to send, then whether there is anything to read: only then is a
        // buffer taken.
        if self.unflushed {
            if let Some(sink) = to.lend_write() {
                ready!(sink.poll_send(cx)).map_err(writing)?;
            }
            self.unflushed = false;
        }
        if let Some(source) = from.raw_read() {
            ready!(source.poll_read_ready(cx)).map_err(reading)?;
        }
        let lends = match from.lend_read() {
            Some(source) => {
                if !ready!(source.poll_fill(cx)).map_err(reading)? {
                    return Poll::Ready(Ok(Round::Ended));
                }
                true
            }
            None => false,
        };
        let Some(sink) = to.lend_write() else { return Poll::Ready(Ok(Round::Moved(0))) };
        ready!(sink.poll_room(cx)).map_err(writing)?;
        let mut places: Vec<IoSliceMut<'_>> = Vec::with_capacity(20);
        sink.room(&mut places, SLICES);
        let amount = if lends {
            let Some(source) = from.lend_read() else { return Poll::Ready(Ok(Round::Moved(0))) };
            let mut pieces = Vec::with_capacity(20);
            source.filled(&mut pieces, SLICES);
            let amount = copy_slices(&pieces, &mut places);
            drop(pieces);
            source.consume(amount);
            amount
        } else if let Some(source) = from.raw_read() {
            match source.try_read_vectored(&mut places) {
                Ok(0) => return Poll::Ready(Ok(Round::Ended)),
                Ok(amount) => amount,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // The readiness is cleared now; ask again to be woken.
                    drop(places);
                    ready!(source.poll_read_ready(cx)).map_err(reading)?;
                    return Poll::Ready(Ok(Round::Moved(0)));
                }
                Err(error) => return Poll::Ready(Err(reading(error))),
            }
        } else {
            match ready!(poll_read_slices(cx, from, &mut places)).map_err(reading)? {
                0 => return Poll::Ready(Ok(Round::Ended)),
                amount => amount,
            }
        };
        drop(places);
        count.fetch_add(amount as u64, Ordering::Relaxed);
        sink.commit(amount).map_err(writing)?;
        self.unflushed = true;
        ready!(sink.poll_send(cx)).map_err(writing)?;
        self.unflushed = false;
        Poll::Ready(Ok(Round::Moved(amount)))
    }

    /// The source decodes in its own buffer: write from there.
    fn poll_from_lent<A, B>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut A,
        to: &mut B,
        count: &AtomicU64,
    ) -> Polled<Round>
    where
        A: Stream + ?Sized,
        B: Stream + ?Sized,
    {
        let Some(source) = from.lend_read() else { return Poll::Ready(Ok(Round::Moved(0))) };
        if !ready!(source.poll_fill(cx)).map_err(reading)? {
            return Poll::Ready(Ok(Round::Ended));
        }
        let mut pieces: Vec<IoSlice<'_>> = Vec::with_capacity(20);
        source.filled(&mut pieces, SLICES);
        let amount = ready!(Pin::new(to).poll_write_vectored(cx, &pieces)).map_err(writing)?;
        drop(pieces);
        if amount == 0 {
            return Poll::Ready(Err(writing(io::ErrorKind::WriteZero.into())));
        }
        self.unflushed = true;
        count.fetch_add(amount as u64, Ordering::Relaxed);
        source.consume(amount);
        Poll::Ready(Ok(Round::Moved(amount)))
    }

    fn poll_through_own<A, B>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut A,
        to: &mut B,
        count: &AtomicU64,
    ) -> Polled<Round>
    where
        A: Stream + ?Sized,
        B: Stream + ?Sized,
    {
        if let Some(source) = from.raw_read() {
            ready!(source.poll_read_ready(cx)).map_err(reading)?;
        }
        let mut buffer = Buffer::take(1, self.appetite);
        let room = buffer.len();
        let amount = match poll_read_slices(cx, from, &mut [IoSliceMut::new(&mut buffer)]) {
            Poll::Ready(Ok(amount)) => amount,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(reading(error))),
            Poll::Pending => return Poll::Pending,
        };
        if amount == 0 {
            return Poll::Ready(Ok(Round::Ended));
        }
        self.appetite.learn(amount, room);
        self.held = Some((buffer, 0..amount));
        ready!(self.poll_held(cx, to, count))?;
        Poll::Ready(Ok(Round::Moved(amount)))
    }

    fn poll_held<B: Stream + ?Sized>(&mut self, cx: &mut Context<'_>, to: &mut B, count: &AtomicU64) -> Polled<()> {
        while let Some((buffer, range)) = &mut self.held {
            let amount = ready!(Pin::new(&mut *to).poll_write(cx, &buffer[range.clone()])).map_err(writing)?;
            if amount == 0 {
                return Poll::Ready(Err(writing(io::ErrorKind::WriteZero.into())));
            }
            self.unflushed = true;
            count.fetch_add(amount as u64, Ordering::Relaxed);
            range.start += amount;
            if range.start >= range.end {
                self.held = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads as much as is there now into the slices, in order; 0 is the end.
fn poll_read_slices<A: Stream + ?Sized>(
    cx: &mut Context<'_>,
    from: &mut A,
    slices: &mut [IoSliceMut<'_>],
) -> Poll<io::Result<usize>> {
    let mut total = 0;
    // A socket gives all that it has in one call; what decodes gives a record at a time.
    let once = from.raw_read().is_some();
    for slice in slices {
        let mut filled = 0;
        while filled < slice.len() {
            let mut space = ReadBuf::new(&mut slice[filled..]);
            let amount = match Pin::new(&mut *from).poll_read(cx, &mut space) {
                Poll::Ready(Ok(())) => space.filled().len(),
                // An end or a failure after some bytes is told again next time.
                Poll::Ready(Err(error)) if total == 0 => return Poll::Ready(Err(error)),
                Poll::Pending if total == 0 => return Poll::Pending,
                Poll::Pending | Poll::Ready(Err(_)) => 0,
            };
            filled += amount;
            total += amount;
            if amount == 0 || once {
                return Poll::Ready(Ok(total));
            }
        }
    }
    Poll::Ready(Ok(total))
}
