//! What an inbound hands on: a flow, the client's side of it, and the answer that the client waits
//! for.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use culvert_wire::Destination;
use culvert_wire::socks::Reply;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;

use crate::datagram::BoxDatagramFlow;
use crate::outbound::ConnectError;
use crate::stream::BoxStream;

/// A flow as the inbound sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The program's end.
    pub source: SocketAddr,
    /// The inbound's end of the same connection.
    pub local: SocketAddr,
    /// Where it wants to go. For a UDP association: where its first datagram is to go, or the
    /// unspecified address when that is not known yet.
    pub destination: Destination,
    /// The inbound's name, as rules see it.
    pub inbound: &'static str,
}

/// Takes flows from an inbound. One clone serves each shard; its futures run on that shard's
/// thread and need not be `Send`.
pub trait Dispatch: Clone + Send + 'static {
    /// Carries a stream from its first byte to its last: connects, answers the client, relays.
    fn stream(&self, flow: Flow, client: Client) -> impl Future<Output = ()>;

    /// Carries a UDP association until `client` ends.
    fn datagrams(&self, flow: Flow, client: BoxDatagramFlow) -> impl Future<Output = ()>;
}

/// The client's side of a stream, before it has been answered.
pub struct Client {
    stream: ClientStream,
    answer: Answer,
}

enum ClientStream {
    Ready(BoxStream),
    /// Handed over after the answer, by whoever speaks HTTP with the client.
    Later(oneshot::Receiver<BoxStream>),
}

/// How the client learns what became of its request.
pub(crate) enum Answer {
    Socks4,
    Socks5,
    /// A CONNECT request of this minor HTTP version.
    HttpConnect {
        minor: u8,
    },
    /// The answer goes to the task that speaks HTTP with the client.
    Task(oneshot::Sender<Result<(), Refusal>>),
}

/// Why a client is turned down, in the terms that both SOCKS and HTTP can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A rule forbids it.
    Blocked,
    /// The name can't be resolved.
    NameUnknown,
    /// The target, or the way to it, refused.
    Refused,
    /// It took too long.
    TimedOut,
    /// Anything else.
    Failed,
}

impl From<&ConnectError> for Refusal {
    fn from(error: &ConnectError) -> Self {
        match error {
            ConnectError::Resolve { .. } => Self::NameUnknown,
            ConnectError::Refused { .. } => Self::Refused,
            ConnectError::TimedOut { .. } => Self::TimedOut,
            ConnectError::NotOffered(_) => Self::Blocked,
            ConnectError::Certificate { .. }
            | ConnectError::Handshake { .. }
            | ConnectError::Target { .. }
            | ConnectError::Io { .. } => Self::Failed,
        }
    }
}

impl Refusal {
    fn socks5(self) -> Reply {
        match self {
            Self::Blocked => Reply::NotAllowed,
            Self::NameUnknown => Reply::HostUnreachable,
            Self::Refused => Reply::Refused,
            Self::TimedOut => Reply::TimedOut,
            Self::Failed => Reply::GeneralFailure,
        }
    }

    /// Status line and a short body for people.
    pub(crate) fn http(self) -> (u16, &'static str) {
        match self {
            Self::Blocked => (403, "Culvert: a rule blocks this address.\n"),
            Self::NameUnknown => (502, "Culvert: this name can't be resolved.\n"),
            Self::Refused => (502, "Culvert: the connection was refused.\n"),
            Self::TimedOut => (504, "Culvert: there was no answer in time.\n"),
            Self::Failed => (502, "Culvert: the connection failed.\n"),
        }
    }
}

impl Client {
    pub(crate) fn new(stream: BoxStream, answer: Answer) -> Self {
        Self { stream: ClientStream::Ready(stream), answer }
    }

    pub(crate) fn later(stream: oneshot::Receiver<BoxStream>, answer: oneshot::Sender<Result<(), Refusal>>) -> Self {
        Self { stream: ClientStream::Later(stream), answer: Answer::Task(answer) }
    }

    /// Tells the client that it may go on, and gives its stream.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn accept(self) -> io::Result<BoxStream> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the client went away before it was answered");
        let answer: &[u8] = match self.answer {
            Answer::Socks4 => &[0, 90, 0, 0, 0, 0, 0, 0],
            // The bound address says nothing of use to a client; zeros parse everywhere.
            Answer::Socks5 => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            Answer::HttpConnect { minor: 0 } => b"HTTP/1.0 200 Connection established\r\n\r\n",
            Answer::HttpConnect { .. } => b"HTTP/1.1 200 Connection established\r\n\r\n",
            Answer::Task(task) => {
                task.send(Ok(())).map_err(|_| gone())?;
                &[]
            }
        };
        let mut stream = match self.stream {
            ClientStream::Ready(stream) => stream,
            ClientStream::Later(stream) => stream.await.map_err(|_| gone())?,
        };
        if !answer.is_empty() {
            stream.write_all(answer).await?;
        }
        Ok(stream)
    }

    /// Tells the client why not, and closes.
    pub async fn refuse(self, refusal: Refusal) {
        let answer = match self.answer {
            Answer::Socks4 => vec![0, 91, 0, 0, 0, 0, 0, 0],
            Answer::Socks5 => vec![5, refusal.socks5().code(), 0, 1, 0, 0, 0, 0, 0, 0],
            Answer::HttpConnect { minor } => http_refusal(refusal, minor),
            Answer::Task(task) => {
                let _ = task.send(Err(refusal));
                return;
            }
        };
        if let ClientStream::Ready(mut stream) = self.stream {
            // The client may be gone; there is no one else to tell.
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
        }
    }
}

fn http_refusal(refusal: Refusal, minor: u8) -> Vec<u8> {
    let (status, body) = refusal.http();
    let reason = match status {
        403 => "Forbidden",
        504 => "Gateway Timeout",
        _ => "Bad Gateway",
    };
    format!(
        "HTTP/1.{minor} {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
