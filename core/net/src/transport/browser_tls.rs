//! TLS 1.3 that looks like a browser's (`wire::tls`), as a stream.

mod judge;
mod sessions;

use std::io;
use std::sync::Arc;

use culvert_profile::node::Tls;
use culvert_wire::tls::{Browser, ClientConfig, Established, Handshake, Progress, ServerAuth, TlsError};
use culvert_wire::{Destination, Host};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::chunked::{ChunkedStream, NoHeader};
use crate::outbound::{ConnectError, Phase};
use crate::random::SystemRandom;
use crate::stream::{BoxStream, Stream};

pub use judge::Judge;
pub use sessions::Sessions;

/// A connection whose handshake is done.
pub struct TlsConnection<S = BoxStream> {
    pub(crate) io: S,
    /// Bytes that were received behind the handshake.
    pub(crate) received: Vec<u8>,
    /// Our last flight, which goes out with the first payload.
    pub(crate) flight: Vec<u8>,
    pub(crate) established: Established,
}

impl<S: Stream> TlsConnection<S> {
    /// The application protocol that the server chose.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.established.alpn.as_deref()
    }

    /// What the handshake agreed on.
    pub fn established(&self) -> &Established {
        &self.established
    }

    /// The connection as a stream.
    pub fn into_stream(self) -> ChunkedStream<S> {
        let Established { seal, open, .. } = self.established;
        ChunkedStream::new(self.io, Box::new(seal), Box::new(NoHeader::new(Box::new(open))))
            .with_received(&self.received)
            .with_prefix(self.flight)
    }
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// TLS itself.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server closed the connection.
    #[error("the server closed the connection during the TLS handshake")]
    Closed,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl HandshakeError {
    /// The error of a connection to `server`; `hint` says what a refusal usually means there.
    pub(crate) fn explain(self, server: &Destination, hint: &'static str) -> ConnectError {
        let problem = match self {
            Self::Tls(TlsError::Certificate(error)) => {
                return ConnectError::Certificate { server: server.to_string(), reason: error.to_string() };
            }
            Self::Io(error) if error.kind() != io::ErrorKind::ConnectionReset => {
                return ConnectError::Io {
                    server: server.to_string(),
                    phase: Phase::Security,
                    source: Arc::new(error),
                };
            }
            Self::Io(_) => Self::Closed.to_string(),
            other @ (Self::Tls(_) | Self::Closed) => other.to_string(),
        };
        ConnectError::Handshake { server: server.to_string(), phase: Phase::Security, problem, hint }
    }
}

/// What a refused handshake of plain TLS usually means.
pub(crate) const REFUSED: &str = "wrong server name, or something on the way blocks it?";

/// The browser that a node's options name; Chrome when they name none.
pub fn browser(tls: &Tls) -> Result<Browser, String> {
    let name = tls.fingerprint.as_deref().unwrap_or_default();
    Browser::from_name(name).ok_or_else(|| format!("the TLS fingerprint {name} is unknown"))
}

/// The hello's options: `alpn` is used when the node names none; with neither, the browser's own.
pub(crate) fn client_config(tls: &Tls, name: &Host, alpn: &[&str]) -> Result<ClientConfig, String> {
    let alpn: Vec<Vec<u8>> = if tls.alpn.is_empty() {
        alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect()
    } else {
        tls.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect()
    };
    let server_name = match name {
        Host::Name(name) if !tls.disable_sni => Some(name.to_string()),
        Host::Name(_) | Host::Ip(_) => None,
    };
    Ok(ClientConfig { browser: browser(tls)?, server_name, alpn: (!alpn.is_empty()).then_some(alpn), sessions: None })
}

/// The handshake with `server` under `name`, its certificate judged as the node's options say.
pub async fn connect<S: Stream>(
    io: S,
    server: &Destination,
    name: &Host,
    tls: &Tls,
    alpn: &[&str],
) -> Result<TlsConnection<S>, ConnectError> {
    let mut config = client_config(tls, name, alpn).map_err(ConnectError::NotOffered)?;
    // A session made under looser rules must not open a door under stricter ones.
    if tls.pin_sha256.is_none() && !tls.insecure {
        config.sessions = Some(Sessions::shared(server));
    }
    let judge = Judge::new(tls, name).map_err(ConnectError::NotOffered)?;
    handshake(io, config, Box::new(judge)).await.map_err(|error| error.explain(server, REFUSED))
}

/// Runs a handshake over `io`.
pub async fn handshake<S: Stream>(
    mut io: S,
    config: ClientConfig,
    auth: Box<dyn ServerAuth>,
) -> Result<TlsConnection<S>, HandshakeError> {
    let mut handshake = Handshake::start(config, auth, Box::new(SystemRandom))?;
    let mut received: Vec<u8> = Vec::with_capacity(4096);
    let mut start = 0;
    loop {
        let output = handshake.take_output();
        if !output.is_empty() {
            io.write_all(&output).await?;
            io.flush().await?;
        }
        let needed = match handshake.receive(&mut received[start..]) {
            Ok(Progress::Consumed(count)) => {
                start += count;
                continue;
            }
            Ok(Progress::Done(count)) => {
                start += count;
                break;
            }
            Ok(Progress::NeedMore(needed)) => needed,
            Err(error) => {
                // The alert is a courtesy; the connection is lost either way.
                let alert = handshake.take_output();
                if io.write_all(&alert).await.is_ok() {
                    io.flush().await.ok();
                }
                return Err(error.into());
            }
        };
        received.drain(..std::mem::take(&mut start));
        received.reserve(needed.saturating_sub(received.len()));
        while received.len() < needed {
            if io.read_buf(&mut received).await? == 0 {
                return Err(HandshakeError::Closed);
            }
        }
    }
    received.drain(..start);
    let flight = handshake.take_output();
    Ok(TlsConnection { io, received, flight, established: handshake.finish()? })
}
