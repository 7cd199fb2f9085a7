//! UDP for protocols whose associations reach one target each: one stream a target.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use culvert_wire::Destination;

use super::ConnectError;
use crate::datagram::{BoxDatagramFlow, Datagram, DatagramFlow};

/// Targets of one association at once; beyond it the one that was silent longest is closed.
const MOST_TARGETS: usize = 256;
/// Datagrams that wait for a stream that is being opened; more are dropped.
const WAITING: usize = 64;
/// A target is forgotten when nothing passed for so long.
const IDLE: Duration = Duration::from_secs(120);

type Opening = Pin<Box<dyn Future<Output = Result<BoxDatagramFlow, ConnectError>> + Send>>;

enum State {
    Opening(Opening),
    Open(BoxDatagramFlow),
}

struct Lane {
    state: State,
    waiting: VecDeque<Datagram>,
    used: Instant,
}

/// Opens a flow to one target.
pub(super) type OpenTarget = Box<dyn Fn(Destination) -> Opening + Send>;

/// A [`DatagramFlow`] of many one-target flows.
pub(super) struct PerTarget {
    open: OpenTarget,
    lanes: HashMap<Destination, Lane>,
    /// Why the last lane failed, told when none is left.
    failed: Option<io::Error>,
}

impl PerTarget {
    pub(super) fn new(open: OpenTarget) -> Self {
        Self { open, lanes: HashMap::new(), failed: None }
    }

    fn lane(&mut self, target: &Destination) -> &mut Lane {
        if !self.lanes.contains_key(target) && self.lanes.len() >= MOST_TARGETS {
            let oldest = self.lanes.iter().min_by_key(|(_, lane)| lane.used).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.lanes.remove(&oldest);
            }
        }
        let open = &self.open;
        self.lanes.entry(target.clone()).or_insert_with(|| Lane {
            state: State::Opening(open(target.clone())),
            waiting: VecDeque::new(),
            used: Instant::now(),
        })
    }
}

impl Lane {
    /// Opens and sends as far as it goes.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let State::Opening(opening) = &mut self.state {
            match opening.as_mut().poll(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(flow)) => self.state = State::Open(flow),
                Poll::Ready(Err(error)) => return Err(io::Error::other(error)),
            }
        }
        if let State::Open(flow) = &mut self.state
            && !self.waiting.is_empty()
            && let Poll::Ready(sent) = flow.poll_send(cx, &mut self.waiting)
        {
            sent?;
        }
        Ok(())
    }
}

impl DatagramFlow for PerTarget {
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        while let Some(datagram) = batch.pop_front() {
            taken += 1;
            let target = datagram.peer.clone();
            let lane = self.lane(&target);
            lane.used = Instant::now();
            // UDP: what a slow stream can't take is lost.
            if lane.waiting.len() < WAITING {
                lane.waiting.push_back(datagram);
            }
            if let Err(error) = lane.poll_progress(cx) {
                self.lanes.remove(&target);
                self.failed = Some(error);
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        let before = out.len();
        let now = Instant::now();
        let mut failed = None;
        self.lanes.retain(|_, lane| {
            if let Err(error) = lane.poll_progress(cx) {
                failed = Some(error);
                return false;
            }
            if let State::Open(flow) = &mut lane.state {
                let room = limit - (out.len() - before);
                if room > 0 {
                    match flow.poll_receive(cx, out, room) {
                        Poll::Ready(Ok(0)) => return false,
                        Poll::Ready(Ok(_)) => {
                            lane.used = now;
                            // Poll again for what is left, so that a wake-up is registered.
                            cx.waker().wake_by_ref();
                        }
                        Poll::Ready(Err(error)) => {
                            failed = Some(error);
                            return false;
                        }
                        Poll::Pending => {}
                    }
                }
            }
            now.duration_since(lane.used) < IDLE
        });
        if failed.is_some() {
            self.failed = failed;
        }
        if out.len() > before {
            return Poll::Ready(Ok(out.len() - before));
        }
        match (self.failed.take(), self.lanes.is_empty()) {
            (Some(error), true) => Poll::Ready(Err(error)),
            (failed, _) => {
                self.failed = failed;
                Poll::Pending
            }
        }
    }
}
