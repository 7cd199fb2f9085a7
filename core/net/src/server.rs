//! Server sides: small, for tests, for the demo node and for the loopback benchmark, but real.
//!
//! A server takes an accepted stream (bare, or behind TLS or WebSocket), reads the request of one
//! of its users and serves it through an [`Outbound`]. Whoever is no user gets no answer: what they
//! send is read for a while and dropped, and the connection closes.

pub mod shadowsocks;
pub mod trojan;
pub mod vless;
pub mod vmess;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use culvert_wire::Destination;
use tokio::io::AsyncReadExt;

use crate::datagram::{BoxDatagramFlow, Datagram, DatagramFlow};
use crate::dial::Dialer;
use crate::outbound::{ConnectError, ConnectRequest, Outbound};
use crate::relay::{Counters, Limits, RelayEnd, relay};
use crate::stream::BoxStream;

/// A client has this long to send its request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// The longest request that is waited for, bytes.
const REQUEST_BYTES: usize = 80 << 10;
/// Strangers are read for so long, and so many bytes, before the connection closes.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
const DRAIN_BYTES: u64 = 64 << 10;
/// An association without a datagram for so long is over.
const DATAGRAM_IDLE: Duration = Duration::from_secs(120);
/// Datagrams moved at once.
const BATCH: usize = 32;

/// Where a server's requests go.
#[derive(Clone)]
pub struct Upstream {
    outbound: Arc<Outbound>,
    dialer: Dialer,
}

impl Upstream {
    /// Requests go through `outbound`, whose sockets `dialer` opens.
    pub fn new(outbound: Outbound, dialer: Dialer) -> Self {
        Self { outbound: Arc::new(outbound), dialer }
    }

    /// Straight to the targets.
    pub fn direct() -> Self {
        Self::new(Outbound::Direct, Dialer::default())
    }
}

/// Why a connection was not served, or ended in an error.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The request is none of a user's; the text says why. The client was told nothing.
    #[error("a request was refused: {0}")]
    Refused(String),
    /// The client sent no whole request in time.
    #[error("no request came in time")]
    TimedOut,
    /// The target can't be reached.
    #[error(transparent)]
    Target(#[from] ConnectError),
    /// A read or write failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A parsed front of a stream: either it needs more bytes, or here it is.
enum Front<T> {
    NeedMore,
    Whole(T),
}

/// Reads from `stream` until `parse` finds a whole request: it and all bytes read.
async fn read_front<T>(
    stream: &mut BoxStream,
    mut parse: impl FnMut(&[u8]) -> Result<Front<T>, ServeError>,
) -> Result<(T, Vec<u8>), ServeError> {
    let mut received = Vec::with_capacity(2048);
    let work = async {
        loop {
            let count = stream.read_buf(&mut received).await?;
            if count == 0 {
                return Err(ServeError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            match parse(&received)? {
                Front::Whole(found) => return Ok(found),
                Front::NeedMore if received.len() > REQUEST_BYTES => {
                    return Err(ServeError::Refused("the request is too long".to_owned()));
                }
                Front::NeedMore => {}
            }
        }
    };
    let result = match tokio::time::timeout(REQUEST_LIMIT, work).await {
        Ok(result) => result,
        Err(_) => Err(ServeError::TimedOut),
    };
    match result {
        Ok(found) => Ok((found, received)),
        Err(error) => {
            if matches!(error, ServeError::Refused(_)) {
                drain(stream).await;
            }
            Err(error)
        }
    }
}

/// Reads and drops, so that the moment of closing tells a prober nothing about where it failed.
async fn drain(stream: &mut BoxStream) {
    let mut sink = tokio::io::sink();
    let mut limited = stream.take(DRAIN_BYTES);
    let _ = tokio::time::timeout(DRAIN_LIMIT, tokio::io::copy(&mut limited, &mut sink)).await;
}

/// Serves a TCP request: connects to `destination` and relays until both directions have ended.
async fn serve_stream(
    upstream: &Upstream,
    mut client: BoxStream,
    destination: Destination,
    first_payload: Bytes,
) -> Result<(), ServeError> {
    let request = ConnectRequest { destination, first_payload };
    let mut target = upstream.outbound.connect(&upstream.dialer, request).await?.stream;
    match relay(&mut client, &mut target, &Counters::default(), Limits::default()).await {
        RelayEnd::Finished | RelayEnd::Idle | RelayEnd::HalfClosed => Ok(()),
        RelayEnd::Failed { error, .. } => Err(error.into()),
    }
}

/// Serves a UDP request: moves datagrams both ways until one side ends or nothing comes any more.
async fn serve_datagrams(upstream: &Upstream, mut client: BoxDatagramFlow) -> Result<(), ServeError> {
    let mut target = upstream.outbound.associate(&upstream.dialer).await?.flow;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let (mut up_queue, mut down_queue) = (VecDeque::new(), VecDeque::new());
    loop {
        let step = poll_fn(|cx| {
            let up = poll_move(cx, &mut *client, &mut *target, &mut up, &mut up_queue);
            let down = poll_move(cx, &mut *target, &mut *client, &mut down, &mut down_queue);
            match (up, down) {
                (Poll::Ready(Err(error)), _) | (_, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
                (Poll::Ready(Ok(false)), _) | (_, Poll::Ready(Ok(false))) => Poll::Ready(Ok(false)),
                (Poll::Pending, Poll::Pending) => Poll::Pending,
                (Poll::Ready(Ok(true)), _) | (_, Poll::Ready(Ok(true))) => Poll::Ready(Ok(true)),
            }
        });
        match tokio::time::timeout(DATAGRAM_IDLE, step).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) | Err(_) => return Ok(()),
            Ok(Err(error)) => return Err(error.into()),
        }
    }
}

/// Moves datagrams one way; `false` when `from` has ended.
fn poll_move(
    cx: &mut Context<'_>,
    from: &mut dyn DatagramFlow,
    to: &mut dyn DatagramFlow,
    batch: &mut Vec<Datagram>,
    queue: &mut VecDeque<Datagram>,
) -> Poll<io::Result<bool>> {
    if queue.is_empty() {
        match ready!(from.poll_receive(cx, batch, BATCH))? {
            0 => return Poll::Ready(Ok(false)),
            _ => queue.extend(batch.drain(..)),
        }
    }
    ready!(to.poll_send(cx, queue))?;
    Poll::Ready(Ok(true))
}

/// The way to one client's task.
type Lane = tokio::sync::mpsc::Sender<Datagram>;
