//! Moves the bytes of one flow, both ways, in one task.
//!
//! Each round asks both streams what they can do now (it may change: a protocol may step aside in
//! the middle) and takes the cheapest way: `splice(2)` between sockets, the streams' own buffers,
//! or a large buffer of our own.

mod datagrams;
mod direction;
#[cfg(target_os = "linux")]
mod splice;

#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::stream::Stream;
use direction::Direction;

pub use datagrams::relay_datagrams;

/// Bytes of one flow, counted as they pass.
#[derive(Debug, Default)]
pub struct Counters {
    up: AtomicU64,
    down: AtomicU64,
}

impl Counters {
    /// Bytes from the application to the target so far.
    pub fn up(&self) -> u64 {
        self.up.load(Ordering::Relaxed)
    }

    /// Bytes from the target to the application so far.
    pub fn down(&self) -> u64 {
        self.down.load(Ordering::Relaxed)
    }

    /// Counts bytes that went up outside of the relay (a first payload, datagrams).
    pub fn add_up(&self, bytes: u64) {
        self.up.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that came down outside of the relay.
    pub fn add_down(&self, bytes: u64) {
        self.down.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// How long a quiet flow lives.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// No byte in either direction.
    pub idle: Duration,
    /// No byte after one direction has ended.
    pub half_closed: Duration,
}

impl Default for Limits {
    /// An hour; five minutes once one direction has ended. Quiet flows cost next to nothing, and
    /// dead ones are found by keep-alive probes.
    fn default() -> Self {
        Self { idle: Duration::from_secs(3600), half_closed: Duration::from_secs(300) }
    }
}

/// Which side of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The application's.
    Client,
    /// The target's, or the server's.
    Remote,
}

/// How a relay ended.
#[derive(Debug)]
pub enum RelayEnd {
    /// Both directions came to their end.
    Finished,
    /// Nothing moved for [`Limits::idle`].
    Idle,
    /// Nothing moved for [`Limits::half_closed`] after one direction had ended.
    HalfClosed,
    /// A stream failed.
    Failed {
        /// Whose stream.
        side: Side,
        /// What failed.
        error: io::Error,
    },
}

/// Quiet is looked for this many times in each limit.
const LOOKS: u32 = 4;

/// Moves bytes between the application (`client`) and the target (`remote`) until both directions
/// have ended, something fails, or nothing moves for too long. Ends of directions are passed on
/// one by one (half-close). The streams are not shut down further on a failure: drop them.
pub async fn relay<C, R>(client: &mut C, remote: &mut R, counters: &Counters, limits: Limits) -> RelayEnd
where
    C: Stream + ?Sized,
    R: Stream + ?Sized,
{
    let mut up = Direction::default();
    let mut down = Direction::default();
    let mut half = false;
    let mut quiet_looks = 0;
    let mut seen = counters.up().wrapping_add(counters.down());
    let timer = tokio::time::sleep(limits.idle / LOOKS);
    tokio::pin!(timer);
    poll_fn(|cx| {
        for (result, from, to) in [
            (up.poll(cx, client, remote, &counters.up), Side::Client, Side::Remote),
            (down.poll(cx, remote, client, &counters.down), Side::Remote, Side::Client),
        ] {
            if let Poll::Ready(Err(failure)) = result {
                let side = if failure.reading { from } else { to };
                return Poll::Ready(RelayEnd::Failed { side, error: failure.error });
            }
        }
        match (up.is_done(), down.is_done()) {
            (true, true) => return Poll::Ready(RelayEnd::Finished),
            (true, false) | (false, true) if !half => {
                half = true;
                quiet_looks = 0;
                timer.as_mut().reset(tokio::time::Instant::now() + limits.half_closed.min(limits.idle) / LOOKS);
            }
            (true, false) | (false, true) | (false, false) => {}
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = counters.up().wrapping_add(counters.down());
            quiet_looks = if now == seen { quiet_looks + 1 } else { 0 };
            seen = now;
            if quiet_looks >= LOOKS {
                return Poll::Ready(if half { RelayEnd::HalfClosed } else { RelayEnd::Idle });
            }
            let limit = if half { limits.half_closed.min(limits.idle) } else { limits.idle };
            timer.as_mut().reset(tokio::time::Instant::now() + (limit / LOOKS).max(Duration::from_millis(1)));
        }
        Poll::Pending
    })
    .await
}
