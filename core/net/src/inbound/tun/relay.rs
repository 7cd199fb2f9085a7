//! One TCP flow: connects its outbound, then moves bytes between the outbound's stream and the
//! flow's rings: the stream reads straight into one and writes straight out of the other.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use culvert_netstack::device::Device;
use culvert_netstack::stack::{Flow, FlowId, Readable};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::shard::Shard;
use super::{Outlet, TunDispatch};
use crate::stream::BoxStream;

/// Reads of the outbound in one turn, before other flows have theirs.
const READS_A_TURN: usize = 4;
/// How long an application may take to send its first bytes, where the decision needs them; then
/// it is made without (protocols in which the server speaks first).
const FIRST_BYTES_LIMIT: Duration = Duration::from_millis(300);
/// Most first bytes that are looked at.
const FIRST_BYTES: usize = 16 << 10;
/// A flow of which one direction has ended and the other is silent for this long is reset.
const HALF_CLOSED_LIMIT: Duration = Duration::from_secs(10 * 60);

type AnyFlow<'a> = Flow<'a, Box<dyn Device>>;

/// Forgets the flow when dropped; one that is not over is reset.
struct Guard {
    shard: Rc<Shard>,
    id: FlowId,
}

impl Guard {
    fn with<R>(&self, now: Instant, act: impl FnOnce(&mut AnyFlow<'_>) -> R) -> Option<R> {
        self.shard.stack.borrow_mut().flow(self.id, now).map(|mut flow| act(&mut flow))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shard.stack.borrow_mut().forget(self.id, Instant::now());
        self.shard.note_blocked();
    }
}

/// Serves a flow from its SYN to its end.
pub(super) async fn serve<T: TunDispatch>(
    shard: Rc<Shard>,
    dispatch: Rc<T>,
    id: FlowId,
    source: SocketAddr,
    destination: SocketAddr,
) {
    let guard = Guard { shard, id };
    let first = if dispatch.needs_first_bytes(source, destination) {
        accept(&guard);
        let mut first = Bytes::new();
        let bytes = poll_fn(|cx| poll_first_bytes(&guard, cx, &mut first));
        if let Ok(false) = tokio::time::timeout(FIRST_BYTES_LIMIT, bytes).await {
            return;
        }
        first
    } else {
        Bytes::new()
    };
    let first_len = first.len();
    let outlet = {
        let mut connect = pin!(dispatch.connect(source, destination, first));
        poll_fn(|cx| {
            if poll_gone(&guard, cx) {
                return Poll::Ready(None);
            }
            connect.as_mut().poll(cx).map(Some)
        })
        .await
    };
    let mut outlet = match outlet {
        None => return,
        Some(Ok(outlet)) => outlet,
        Some(Err(error)) => {
            tracing::debug!(%source, %destination, %error, "a TCP flow was refused");
            return;
        }
    };
    outlet.observer.sent(first_len);
    accept(&guard);
    Relay {
        guard,
        outlet,
        up: Direction::Open,
        down: Direction::Open,
        unflushed: first_len > 0,
        received_any: false,
        timer: Timer { sleep: None, armed: None },
        last_moved: Instant::now(),
    }
    .await;
}

fn accept(guard: &Guard) {
    guard.with(Instant::now(), |flow| {
        flow.accept();
        flow.egress();
    });
    guard.shard.note_blocked();
}

/// Whether the application has given the flow up while its outbound is being connected.
fn poll_gone(guard: &Guard, cx: &mut Context<'_>) -> bool {
    let gone = guard.with(Instant::now(), |flow| {
        flow.register(cx.waker());
        // Before the outbound takes over, nobody else acknowledges what the application sends.
        flow.egress();
        matches!(flow.readable(), Readable::Broken)
    });
    guard.shard.note_blocked();
    gone.unwrap_or(true)
}

/// Ready(true) with the first bytes, or without any when the application sends none.
fn poll_first_bytes(guard: &Guard, cx: &mut Context<'_>, first: &mut Bytes) -> Poll<bool> {
    let result = guard.with(Instant::now(), |flow| {
        flow.register(cx.waker());
        flow.egress();
        match flow.readable() {
            Readable::Nothing => Poll::Pending,
            Readable::Finished => Poll::Ready(true),
            Readable::Broken => Poll::Ready(false),
            Readable::Data => {
                flow.read(|bytes| {
                    let taken = bytes.len().min(FIRST_BYTES);
                    *first = Bytes::copy_from_slice(&bytes[..taken]);
                    (taken, ())
                });
                Poll::Ready(true)
            }
        }
    });
    guard.shard.note_blocked();
    result.unwrap_or(Poll::Ready(false))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Open,
    /// Up only: the outbound's stream is being shut down.
    Ending,
    Done,
}

struct Relay {
    guard: Guard,
    outlet: Outlet,
    up: Direction,
    down: Direction,
    unflushed: bool,
    received_any: bool,
    timer: Timer,
    last_moved: Instant,
}

/// What one attempt to move bytes came to.
enum Step {
    Moved(usize),
    Blocked,
    Ended,
    Failed,
}

/// Why the relay stops at once.
enum Broken {
    /// The application reset the flow, or is gone.
    Application,
    /// The outbound failed, or the flow was closed from outside.
    Outbound,
}

impl Future for Relay {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let relay = self.get_mut();
        let shard = relay.guard.shard.clone();
        let now = Instant::now();
        let mut stack = shard.stack.borrow_mut();
        let Some(mut flow) = stack.flow(relay.guard.id, now) else {
            return Poll::Ready(());
        };
        flow.register(cx.waker());
        let moved = relay.turn(&mut flow, now, cx);
        flow.egress();
        let over = match moved {
            Ok(()) => {
                // What the application sees as the end is an end even when its own FIN is missing.
                let ended = relay.up == Direction::Done && relay.down == Direction::Done;
                flow.is_over() && (ended || matches!(flow.readable(), Readable::Broken))
            }
            Err(Broken::Application) => {
                reset_with_socket(&mut relay.outlet.stream);
                true
            }
            Err(Broken::Outbound) => {
                flow.abort();
                flow.egress();
                true
            }
        };
        if !over {
            let idle = (relay.up != relay.down).then(|| relay.last_moved + HALF_CLOSED_LIMIT);
            if idle.is_some_and(|limit| limit <= now) {
                return Poll::Ready(());
            }
            let deadline = match (flow.deadline(), idle) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            relay.timer.arm(now, deadline, cx);
        }
        drop(stack);
        shard.note_blocked();
        if over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Relay {
    fn turn(&mut self, flow: &mut AnyFlow<'_>, now: Instant, cx: &mut Context<'_>) -> Result<(), Broken> {
        if self.outlet.observer.poll_closed(cx).is_ready() {
            return Err(Broken::Outbound);
        }
        self.move_up(flow, now, cx)?;
        self.move_down(flow, now, cx)
    }

    fn move_up(&mut self, flow: &mut AnyFlow<'_>, now: Instant, cx: &mut Context<'_>) -> Result<(), Broken> {
        let stream = &mut self.outlet.stream;
        while self.up == Direction::Open {
            match flow.readable() {
                Readable::Nothing => break,
                Readable::Broken => return Err(Broken::Application),
                Readable::Finished => self.up = Direction::Ending,
                Readable::Data => {
                    let step = flow.read(|bytes| write_out(stream, cx, bytes));
                    match step {
                        Some(Step::Moved(amount)) => {
                            self.unflushed = true;
                            self.last_moved = now;
                            self.outlet.observer.sent(amount);
                        }
                        Some(Step::Blocked) => break,
                        Some(Step::Ended | Step::Failed) => return Err(Broken::Outbound),
                        None => return Err(Broken::Application),
                    }
                }
            }
        }
        if self.unflushed {
            match Pin::new(&mut *stream).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(_)) => return Err(Broken::Outbound),
                Poll::Pending => {}
            }
        }
        if self.up == Direction::Ending {
            match Pin::new(&mut *stream).poll_shutdown(cx) {
                Poll::Ready(Ok(())) => self.up = Direction::Done,
                // Where the other side has gone already there is nothing to shut down.
                Poll::Ready(Err(_)) if self.down == Direction::Done => self.up = Direction::Done,
                Poll::Ready(Err(_)) => return Err(Broken::Outbound),
                Poll::Pending => {}
            }
        }
        Ok(())
    }

    fn move_down(&mut self, flow: &mut AnyFlow<'_>, now: Instant, cx: &mut Context<'_>) -> Result<(), Broken> {
        let stream = &mut self.outlet.stream;
        let mut reads = 0;
        while self.down == Direction::Open {
            let Some(room) = flow.room() else {
                return Err(Broken::Application);
            };
            // Small reads cost as much as large ones: wait for half a ring.
            if room < flow.capacity() / 2 {
                break;
            }
            if reads == READS_A_TURN {
                cx.waker().wake_by_ref();
                break;
            }
            reads += 1;
            match flow.write(|place| read_in(stream, cx, place)) {
                Some(Step::Moved(amount)) => {
                    self.received_any = true;
                    self.last_moved = now;
                    self.outlet.observer.received(amount);
                    flow.egress();
                }
                Some(Step::Blocked) => break,
                Some(Step::Ended) => {
                    if !self.received_any && !self.outlet.target_reached {
                        return Err(Broken::Outbound);
                    }
                    self.down = Direction::Done;
                    flow.finish();
                }
                Some(Step::Failed) => return Err(Broken::Outbound),
                None => return Err(Broken::Application),
            }
        }
        Ok(())
    }
}

fn write_out(stream: &mut BoxStream, cx: &mut Context<'_>, bytes: &[u8]) -> (usize, Step) {
    match Pin::new(stream).poll_write(cx, bytes) {
        Poll::Ready(Ok(0)) => (0, Step::Ended),
        Poll::Ready(Ok(amount)) => (amount, Step::Moved(amount)),
        Poll::Ready(Err(_)) => (0, Step::Failed),
        Poll::Pending => (0, Step::Blocked),
    }
}

fn read_in(stream: &mut BoxStream, cx: &mut Context<'_>, place: &mut [u8]) -> (usize, Step) {
    let mut buffer = ReadBuf::new(place);
    match Pin::new(stream).poll_read(cx, &mut buffer) {
        Poll::Ready(Ok(())) => match buffer.filled().len() {
            0 => (0, Step::Ended),
            amount => (amount, Step::Moved(amount)),
        },
        Poll::Ready(Err(_)) => (0, Step::Failed),
        Poll::Pending => (0, Step::Blocked),
    }
}

/// Has the drop of a plain socket reset its connection, as the application reset its own.
fn reset_with_socket(stream: &mut BoxStream) {
    if let Some(socket) = stream.raw_write() {
        // A socket that is closed already can't be reset and need not be.
        let _ = socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO));
    }
}

/// The flow's one timer, moved only when it must fire earlier than it would.
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    armed: Option<Instant>,
}

impl Timer {
    fn arm(&mut self, now: Instant, deadline: Option<Instant>, cx: &mut Context<'_>) {
        let Some(deadline) = deadline else { return };
        if self.armed.is_some_and(|armed| armed > now && armed <= deadline) {
            return;
        }
        let at = tokio::time::Instant::from_std(deadline);
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                sleep.as_mut().reset(at);
                sleep
            }
            none => none.insert(Box::pin(tokio::time::sleep_until(at))),
        };
        self.armed = Some(deadline);
        if sleep.as_mut().poll(cx).is_ready() {
            self.armed = None;
            cx.waker().wake_by_ref();
        }
    }
}
