//! Questions to resolvers: each is put to one resolver over TCP through a way out, so that they are
//! answered behind every node, also one that carries no UDP, whichever resolver was meant.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use culvert_net::datagram::{Datagram, DatagramFlow};
use culvert_net::outbound::ConnectRequest;
use culvert_wire::Destination;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::leave::Leave;

/// Questions of one socket that may wait for their answer; further ones are dropped.
const MAX_OPEN: usize = 32;
/// Applications ask again long before.
const PATIENCE: Duration = Duration::from_secs(10);
/// A header without a question (RFC 1035, 4.1.1).
const HEADER: usize = 12;
/// The largest answer for one who says nothing of his buffer (RFC 1035), and for one who does.
const PLAIN_LIMIT: usize = 512;
const EXTENDED_LIMIT: usize = 1_232;

/// The questions of one socket.
pub(super) struct Questions {
    leave: Arc<dyn Leave>,
    resolver: SocketAddr,
    open: JoinSet<Option<Datagram>>,
}

impl Questions {
    /// Puts questions to `resolver` through `leave`.
    pub(super) fn new(leave: Arc<dyn Leave>, resolver: SocketAddr) -> Self {
        Self { leave, resolver, open: JoinSet::new() }
    }
}

impl DatagramFlow for Questions {
    fn poll_send(&mut self, _: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let count = batch.len();
        for question in batch.drain(..) {
            let fits = (HEADER..=usize::from(u16::MAX)).contains(&question.payload.len());
            if fits && self.open.len() < MAX_OPEN {
                let (leave, resolver) = (Arc::clone(&self.leave), self.resolver);
                self.open.spawn(async move {
                    let payload = tokio::time::timeout(PATIENCE, ask(&*leave, resolver, &question.payload)).await;
                    match payload {
                        Ok(Ok(payload)) => Some(Datagram { peer: question.peer, payload }),
                        Ok(Err(error)) => {
                            tracing::debug!("{resolver} did not answer: {error}");
                            None
                        }
                        Err(_) => None,
                    }
                });
            }
        }
        Poll::Ready(Ok(count))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        let before = out.len();
        while out.len() - before < limit {
            match self.open.poll_join_next(cx) {
                Poll::Ready(Some(Ok(Some(answer)))) => out.push(answer),
                // No answer: the application asks again.
                Poll::Ready(Some(Ok(None) | Err(_))) => {}
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        match out.len() - before {
            0 => Poll::Pending,
            received => Poll::Ready(Ok(received)),
        }
    }
}

async fn ask(leave: &dyn Leave, resolver: SocketAddr, question: &[u8]) -> io::Result<BytesMut> {
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    let request = ConnectRequest { destination: Destination::from(resolver), first_payload: Bytes::new() };
    let mut stream = leave.connect(request).await.map_err(io::Error::other)?.stream;
    let mut framed = Vec::with_capacity(2 + question.len());
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(question);
    stream.write_all(&framed).await?;
    stream.flush().await?;
    let length = stream.read_u16().await?;
    let mut answer = BytesMut::zeroed(usize::from(length));
    stream.read_exact(&mut answer).await?;
    if answer.len() < HEADER || answer[..2] != question[..2] {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is not to the question"));
    }
    Ok(shortened(answer, question))
}

/// An answer that is too large for its datagram: its header, marked as cut short and with no
/// records, so that the application asks again over TCP.
fn shortened(mut answer: BytesMut, question: &[u8]) -> BytesMut {
    let extended = question.get(10..HEADER).is_some_and(|additional| additional != [0, 0]);
    let limit = if extended { EXTENDED_LIMIT } else { PLAIN_LIMIT };
    if answer.len() > limit {
        answer.truncate(HEADER);
        answer[2] |= 0x02;
        answer[4..HEADER].fill(0);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_answer_is_cut_to_its_header() {
        let mut question = vec![0_u8; 20];
        let small = BytesMut::zeroed(PLAIN_LIMIT);
        assert_eq!(shortened(small.clone(), &question), small);
        let large = BytesMut::from(&[0x41_u8; PLAIN_LIMIT + 1][..]);
        assert_eq!(shortened(large.clone(), &question)[..], [0x41, 0x41, 0x43, 0x41, 0, 0, 0, 0, 0, 0, 0, 0]);
        question[11] = 1;
        assert_eq!(shortened(large.clone(), &question), large);
    }
}
