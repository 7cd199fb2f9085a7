//! Moves the datagrams of one association, both ways, in one task.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{Counters, LOOKS, RelayEnd, Side};
use crate::datagram::{Datagram, DatagramFlow};

/// Datagrams moved in one go.
const BATCH: usize = 32;
/// Batches after which others get their turn.
const TURN: usize = 16;

/// Moves datagrams between the application and the outbound until either ends or none moves for
/// `idle`.
pub async fn relay_datagrams(
    client: &mut dyn DatagramFlow,
    remote: &mut dyn DatagramFlow,
    counters: &Counters,
    idle: Duration,
) -> RelayEnd {
    let mut up = Pending::default();
    let mut down = Pending::default();
    let mut seen = 0;
    let mut quiet_looks = 0;
    let timer = tokio::time::sleep(idle / LOOKS);
    tokio::pin!(timer);
    poll_fn(|cx| {
        let results = [
            (up.poll(cx, client, remote, &|bytes| counters.add_up(bytes)), Side::Client, Side::Remote),
            (down.poll(cx, remote, client, &|bytes| counters.add_down(bytes)), Side::Remote, Side::Client),
        ];
        for (result, from, to) in results {
            match result {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => return Poll::Ready(RelayEnd::Finished),
                Poll::Ready(Err((reading, error))) => {
                    return Poll::Ready(RelayEnd::Failed { side: if reading { from } else { to }, error });
                }
            }
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = counters.up().wrapping_add(counters.down());
            quiet_looks = if now == seen { quiet_looks + 1 } else { 0 };
            seen = now;
            if quiet_looks >= LOOKS {
                return Poll::Ready(RelayEnd::Idle);
            }
            timer.as_mut().reset(tokio::time::Instant::now() + (idle / LOOKS).max(Duration::from_millis(1)));
        }
        Poll::Pending
    })
    .await
}

#[derive(Default)]
struct Pending {
    batch: VecDeque<Datagram>,
    fresh: Vec<Datagram>,
}

impl Pending {
    /// `Ready(Ok)` at the end of `from`.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut dyn DatagramFlow,
        to: &mut dyn DatagramFlow,
        count: &dyn Fn(u64),
    ) -> Poll<Result<(), (bool, io::Error)>> {
        for _ in 0..TURN {
            while !self.batch.is_empty() {
                match to.poll_send(cx, &mut self.batch) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err((false, error))),
                    Poll::Pending => {
                        // A sink that is stuck must not keep the end of the association unseen,
                        // nor hold more than a few batches.
                        if self.batch.len() >= BATCH * 4 {
                            return Poll::Pending;
                        }
                        break;
                    }
                }
            }
            match from.poll_receive(cx, &mut self.fresh, BATCH) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => {
                    count(self.fresh.iter().map(|d| d.payload.len() as u64).sum());
                    self.batch.extend(self.fresh.drain(..));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err((true, error))),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
