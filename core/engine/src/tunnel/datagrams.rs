//! Two ends of a short queue of datagrams, so that what serves the mixed port's UDP serves the
//! device's as well.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

use culvert_net::datagram::{BoxDatagramFlow, Datagram, DatagramFlow};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Datagrams that may wait in each direction; further ones are dropped, as UDP may.
const WAITING: usize = 256;

struct End {
    outgoing: Sender<Datagram>,
    incoming: Receiver<Datagram>,
}

/// What one end sends, the other receives.
pub(super) fn pair() -> (BoxDatagramFlow, BoxDatagramFlow) {
    let (to_b, from_a) = channel(WAITING);
    let (to_a, from_b) = channel(WAITING);
    (Box::new(End { outgoing: to_b, incoming: from_b }), Box::new(End { outgoing: to_a, incoming: from_a }))
}

impl DatagramFlow for End {
    fn poll_send(&mut self, _: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let count = batch.len();
        for datagram in batch.drain(..) {
            match self.outgoing.try_send(datagram) {
                Ok(()) | Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Closed(_)) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        Poll::Ready(Ok(count))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        self.incoming.poll_recv_many(cx, out, limit).map(Ok)
    }
}
