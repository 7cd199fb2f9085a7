//! A VLESS server behind REALITY, with Vision: for tests, the demo and the benchmark. Small, but
//! real: whoever it does not recognise is handed to the real site, byte for byte.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use culvert_wire::chunk::{Open, Opened};
use culvert_wire::reality::{ServerOptions, answer};
use culvert_wire::tls::{ClientHello, Progress, RecordOpen, RecordSeal, ServerHandshake, TlsError};
use culvert_wire::vision::{SharedFilter, VisionOpen, VisionSeal};
use culvert_wire::vless::{Command, RESPONSE, Request, VISION, take_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::chunked::{ChunkedStream, NoHeader};
use crate::dial::Dialer;
use crate::outbound::{ConnectError, Trace};
use crate::random::SystemRandom;
use crate::relay::{Counters, Limits, relay};

/// A client has this long for its hello, and again for its request.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest hello, and the longest request, in bytes.
const FRONT: usize = 32 << 10;

/// A server.
pub struct RealityServer {
    options: ServerOptions,
    users: Vec<[u8; 16]>,
    site: SocketAddr,
    dialer: Dialer,
}

/// Why a connection was not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The handshake failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The target can't be reached.
    #[error(transparent)]
    Target(#[from] ConnectError),
    /// The client took too long.
    #[error("the client sent no whole request in time")]
    TimedOut,
    /// The request is none of a user's.
    #[error("a request was refused: {0}")]
    Refused(&'static str),
}

impl RealityServer {
    /// A server for these users, that hides behind the TLS server at `site`.
    pub fn new(options: ServerOptions, users: Vec<[u8; 16]>, site: SocketAddr, dialer: Dialer) -> Self {
        Self { options, users, site, dialer }
    }

    /// Serves one connection to its end; counts its bytes.
    pub async fn serve(&self, mut socket: TcpStream, counters: Arc<Counters>) -> Result<(), ServeError> {
        socket.set_nodelay(true)?;
        let mut received = Vec::with_capacity(4096);
        let hello = timed(read_hello(&mut socket, &mut received)).await?;
        let handshake = hello.and_then(|length| {
            let hello = ClientHello::parse(&received[5..5 + length]).ok()?;
            let client = self.options.recognise(&hello)?;
            Some(answer(&hello, &client, &mut SystemRandom).map(|handshake| (handshake, 5 + length)))
        });
        let Some(handshake) = handshake else {
            return self.show_site(socket, &received).await;
        };
        let (handshake, length) = handshake?;
        received.drain(..length);
        let (seal, open) = timed(finish(&mut socket, handshake, &mut received)).await?;
        self.serve_request(socket, seal, open, received, &counters).await
    }

    async fn show_site(&self, mut socket: TcpStream, received: &[u8]) -> Result<(), ServeError> {
        let mut site = TcpStream::connect(self.site).await?;
        site.write_all(received).await?;
        tokio::io::copy_bidirectional(&mut socket, &mut site).await?;
        Ok(())
    }

    async fn serve_request(
        &self,
        mut socket: TcpStream,
        seal: RecordSeal,
        mut open: RecordOpen,
        received: Vec<u8>,
        counters: &Counters,
    ) -> Result<(), ServeError> {
        let (request, plain, mut received) = timed(read_request(&mut socket, &mut open, received)).await?;
        if !self.users.contains(&request.user) {
            return Err(ServeError::Refused("no user of this id"));
        }
        let (Command::Tcp, Some(destination)) = (request.command, request.destination) else {
            return Err(ServeError::Refused("only TCP is served"));
        };
        if &*request.flow != VISION {
            return Err(ServeError::Refused("the flow must be Vision"));
        }
        let mut target = self.dialer.connect(&destination, &mut Trace::start()).await?;
        let filter = SharedFilter::default();
        let opening = VisionOpen::server(open, request.user, plain.len(), filter.clone());
        let sealing = VisionSeal::new(seal, request.user, RESPONSE.to_vec(), filter);
        received.splice(..0, plain);
        let mut client = ChunkedStream::new(socket, Box::new(sealing), Box::new(NoHeader::new(Box::new(opening))))
            .with_received(&received);
        relay(&mut client, &mut target, counters, Limits::default()).await;
        Ok(())
    }
}

async fn timed<T>(work: impl Future<Output = Result<T, ServeError>>) -> Result<T, ServeError> {
    tokio::time::timeout(LIMIT, work).await.unwrap_or(Err(ServeError::TimedOut))
}

async fn more(socket: &mut TcpStream, received: &mut Vec<u8>) -> Result<(), ServeError> {
    if received.len() > FRONT || socket.read_buf(received).await? == 0 {
        return Err(ServeError::Refused("the connection ended, or too much came, before a whole request"));
    }
    Ok(())
}

/// Reads one record with a whole ClientHello: its length, or `None` when it is something else.
async fn read_hello(socket: &mut TcpStream, received: &mut Vec<u8>) -> Result<Option<usize>, ServeError> {
    loop {
        if let Some(&[kind, major, _, high, low]) = received.first_chunk() {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if kind != 22 || major != 3 || length > 16384 {
                return Ok(None);
            }
            if received.len() >= 5 + length {
                return Ok(Some(length));
            }
        }
        more(socket, received).await?;
    }
}

async fn finish(
    socket: &mut TcpStream,
    mut handshake: ServerHandshake,
    received: &mut Vec<u8>,
) -> Result<(RecordSeal, RecordOpen), ServeError> {
    socket.write_all(&handshake.take_output()).await?;
    loop {
        match handshake.receive(received)? {
            Progress::NeedMore(_) => more(socket, received).await?,
            Progress::Consumed(count) => drop(received.drain(..count)),
            Progress::Done(count) => {
                received.drain(..count);
                return Ok(handshake.finish()?);
            }
        }
    }
}

/// Reads the request: it, the decrypted bytes behind it, and what is not decrypted yet.
async fn read_request(
    socket: &mut TcpStream,
    open: &mut RecordOpen,
    mut received: Vec<u8>,
) -> Result<(Request, Vec<u8>, Vec<u8>), ServeError> {
    let mut plain = Vec::new();
    loop {
        match take_request(&plain) {
            Ok(Some((request, length))) => {
                plain.drain(..length);
                return Ok((request, plain, received));
            }
            Ok(None) if plain.len() > FRONT => return Err(ServeError::Refused("the request is too long")),
            Ok(None) => {}
            Err(_) => return Err(ServeError::Refused("this is no VLESS request")),
        }
        match open.open(&mut received) {
            Ok(Opened::NeedMore(_)) => more(socket, &mut received).await?,
            Ok(Opened::Chunk { consumed, payload }) => {
                plain.extend_from_slice(&received[payload]);
                received.drain(..consumed);
            }
            Ok(Opened::End { .. }) | Err(_) => return Err(ServeError::Refused("the connection ended early")),
        }
    }
}
