//! What an inbound hands to the rest: who wants to go where, and a client that waits for word.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use culvert_wire::socks::{self, Reply};
use culvert_wire::{Destination, Host, Network};
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;

use crate::datagram::BoxDatagramFlow;
use crate::outbound::ConnectError;
use crate::stream::BoxStream;

/// A flow that came in.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The application's end.
    pub source: SocketAddr,
    /// Where it wants to go. For [`Network::Udp`] unspecified (`0.0.0.0:0`): each datagram says.
    pub destination: Destination,
    /// TCP or UDP.
    pub network: Network,
    /// Name of the inbound.
    pub inbound: Arc<str>,
    /// The user that logged in, if the inbound asks for a login.
    pub user: Option<Arc<str>>,
}

/// A future that serves one flow to its end.
pub type Dispatching = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes flows over. Each call's future runs on the shard that accepted the flow.
pub trait Dispatch: Send + Sync + 'static {
    /// Serves a stream: connect, tell the client, relay. Dropping the client unanswered closes it.
    fn dispatch_stream(&self, flow: Flow, client: Client) -> Dispatching;

    /// Serves a UDP association: `client` receives what the application sends, and sends to it.
    /// The association ends when `client` does.
    fn dispatch_datagrams(&self, flow: Flow, client: BoxDatagramFlow) -> Dispatching;
}

/// How the client is told.
pub(super) enum Answer {
    Socks4,
    Socks5,
    /// CONNECT; the minor version of HTTP/1.
    Http {
        minor: u8,
    },
    /// The HTTP proxy itself is the client, and tells the application in its own way.
    Forward(oneshot::Sender<Result<(), ConnectError>>),
}

/// A client that waits to hear whether its target was reached.
///
/// For targets behind a proxy call [`Client::accept`] at once: the application then sends its first
/// bytes, which can go out with the protocol's header. For direct ones accept after connecting, so
/// that the application learns the exact failure.
pub struct Client {
    pub(super) stream: BoxStream,
    pub(super) answer: Answer,
}

impl Client {
    /// Tells success; what follows on the stream is the application's.
    pub async fn accept(self) -> io::Result<BoxStream> {
        let Self { mut stream, answer } = self;
        match answer {
            Answer::Socks4 => stream.write_all(&[0, 90, 0, 0, 0, 0, 0, 0]).await?,
            Answer::Socks5 => stream.write_all(&reply_v5(Reply::Succeeded)).await?,
            Answer::Http { minor } => {
                let line = format!("HTTP/1.{minor} 200 Connection established\r\n\r\n");
                stream.write_all(line.as_bytes()).await?;
            }
            Answer::Forward(told) => {
                let _ = told.send(Ok(()));
            }
        }
        Ok(stream)
    }

    /// Tells failure, as exactly as the client's protocol can, and closes.
    pub async fn refuse(self, error: &ConnectError) -> io::Result<()> {
        let Self { mut stream, answer } = self;
        match answer {
            Answer::Socks4 => stream.write_all(&[0, 91, 0, 0, 0, 0, 0, 0]).await?,
            Answer::Socks5 => stream.write_all(&reply_v5(reply_for(error))).await?,
            Answer::Http { minor } => {
                let (status, text) = status_for(error);
                let line = format!(
                    "HTTP/1.{minor} {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                    text.len()
                );
                stream.write_all(line.as_bytes()).await?;
            }
            Answer::Forward(told) => {
                let _ = told.send(Err(error.clone()));
                return Ok(());
            }
        }
        stream.shutdown().await
    }
}

pub(super) fn reply_v5(reply: Reply) -> Vec<u8> {
    socks::reply_v5(reply, &Destination::new(Host::Ip([0, 0, 0, 0].into()), 0))
}

fn reply_for(error: &ConnectError) -> Reply {
    match error {
        ConnectError::Resolve { .. } => Reply::HostUnreachable,
        ConnectError::Refused { .. } => Reply::Refused,
        ConnectError::TimedOut { .. } => Reply::TimedOut,
        ConnectError::NotOffered(_) => Reply::NotAllowed,
        ConnectError::Certificate { .. } | ConnectError::Handshake { .. } | ConnectError::Target { .. } => {
            Reply::GeneralFailure
        }
        ConnectError::Io { source, .. } =>
        {
            #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign, open enum")]
            match source.kind() {
                io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
                io::ErrorKind::HostUnreachable => Reply::HostUnreachable,
                io::ErrorKind::ConnectionRefused => Reply::Refused,
                io::ErrorKind::TimedOut => Reply::TimedOut,
                _ => Reply::GeneralFailure,
            }
        }
    }
}

/// The HTTP status for a failure, and a line for a person.
pub(super) fn status_for(error: &ConnectError) -> (&'static str, String) {
    let status = match error {
        ConnectError::TimedOut { .. } => "504 Gateway Timeout",
        ConnectError::NotOffered(_) => "403 Forbidden",
        ConnectError::Resolve { .. }
        | ConnectError::Refused { .. }
        | ConnectError::Certificate { .. }
        | ConnectError::Handshake { .. }
        | ConnectError::Target { .. }
        | ConnectError::Io { .. } => "502 Bad Gateway",
    };
    (status, format!("Culvert: {error}\n"))
}
