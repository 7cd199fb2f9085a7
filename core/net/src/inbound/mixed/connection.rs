//! One client from its first byte to the hand-over.

use std::io;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use culvert_wire::Destination;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{HANDSHAKE_LIMIT, Shared, http, socks};
use crate::inbound::{Dispatch, Flow};
use crate::prefixed::PrefixedStream;
use crate::stream::BoxStream;

/// The name by which rules know this inbound.
pub(super) const INBOUND: &str = "mixed";

/// A client's connection and the bytes of it that were read but not used.
pub(super) struct Incoming {
    pub(super) stream: TcpStream,
    pub(super) buffer: BytesMut,
    pub(super) source: SocketAddr,
    pub(super) local: SocketAddr,
}

impl Incoming {
    /// Waits until at least `amount` bytes lie in the buffer.
    ///
    /// # Errors
    /// The client closed before, or the connection broke.
    pub(super) async fn need(&mut self, amount: usize) -> io::Result<()> {
        while self.buffer.len() < amount {
            self.more().await?;
        }
        Ok(())
    }

    /// Waits for at least one more byte.
    ///
    /// # Errors
    /// The client closed, or the connection broke.
    pub(super) async fn more(&mut self) -> io::Result<()> {
        self.buffer.reserve(1024);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Takes `amount` bytes, waiting for them.
    pub(super) async fn take(&mut self, amount: usize) -> io::Result<Bytes> {
        self.need(amount).await?;
        Ok(self.buffer.split_to(amount).freeze())
    }

    /// The flow to `destination`.
    pub(super) fn flow(&self, destination: Destination) -> Flow {
        Flow { source: self.source, local: self.local, destination, inbound: INBOUND }
    }

    /// The stream with the unused bytes in front.
    pub(super) fn into_stream(self) -> BoxStream {
        if self.buffer.is_empty() {
            Box::new(self.stream)
        } else {
            Box::new(PrefixedStream::new(self.buffer.freeze(), self.stream))
        }
    }
}

/// Whether `destination` is the port itself, which listens at `local`: carrying that would go in
/// circles.
pub(super) fn is_ourselves(destination: &Destination, local: SocketAddr) -> bool {
    if destination.port != local.port() {
        return false;
    }
    match &destination.host {
        culvert_wire::Host::Ip(ip) => {
            let ip = ip.to_canonical();
            ip.is_loopback() || ip.is_unspecified() || ip == local.ip()
        }
        culvert_wire::Host::Name(name) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
    }
}

pub(super) async fn serve<D: Dispatch>(
    stream: TcpStream,
    source: SocketAddr,
    local: SocketAddr,
    shared: &Shared,
    dispatch: &D,
) {
    let mut incoming = Incoming { stream, buffer: BytesMut::new(), source, local };
    // Browsers open connections ahead of need and may never use them: no line in the log for those.
    let first = match timeout(HANDSHAKE_LIMIT, incoming.need(1)).await {
        Ok(Ok(())) => incoming.buffer.first().copied(),
        Ok(Err(_)) | Err(_) => return,
    };
    let served = match first {
        Some(5) => socks::serve_v5(incoming, shared, dispatch).await,
        Some(4) => socks::serve_v4(incoming, shared, dispatch).await,
        Some(0x16) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a client speaks TLS to the local port: set it up as an HTTP or SOCKS proxy, not as HTTPS",
        )),
        Some(_) | None => http::serve(incoming, shared, dispatch).await,
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a client of the local port was turned away");
    }
}
