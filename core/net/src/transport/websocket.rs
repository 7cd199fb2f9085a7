//! WebSocket, client and server: the upgrade, and frames by [`crate::chunked`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use culvert_wire::Destination;
use culvert_wire::random::Random;
use culvert_wire::websocket::{FrameOpen, FrameSeal, Role};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use crate::chunked::{ChunkedStream, NoHeader};
use crate::dial::Dialer;
use crate::outbound::{ConnectError, Phase, Trace};
use crate::random::SystemRandom;
use crate::stream::{BoxStream, LendRead, LendWrite, Stream};

/// The most bytes of an upgrade's head, either way.
const HEAD_LIMIT: usize = 16 << 10;
const EARLY_HEADER: &str = "Sec-WebSocket-Protocol";

/// What the client's upgrade says.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The Host header.
    pub authority: String,
    /// Path and query; `/` when empty.
    pub path: String,
    /// The most bytes of early data; 0 for none.
    pub early_data: usize,
    /// The header that carries them (`Sec-WebSocket-Protocol` when absent).
    pub early_data_header: Option<String>,
}

/// The client's upgrade over `stream`. With early data the upgrade waits for the first write.
pub async fn connect(
    dialer: &Dialer,
    stream: BoxStream,
    server: &Destination,
    options: ClientOptions,
    trace: &mut Trace,
) -> Result<BoxStream, ConnectError> {
    if [&options.authority, &options.path].iter().any(|text| text.bytes().any(|b| b <= b' ' || b == 0x7f)) {
        return Err(ConnectError::NotOffered(
            "the WebSocket host or path holds a space or control character".to_owned(),
        ));
    }
    if options.early_data > 0 {
        return Ok(Box::new(EarlyStream { state: Early::Waiting { stream: Some(stream), options, reader: None } }));
    }
    let upgrade = async {
        upgrade(stream, &options, &[]).await.map_err(|error| {
            if error.kind() == io::ErrorKind::InvalidData || error.kind() == io::ErrorKind::UnexpectedEof {
                return ConnectError::Handshake {
                    server: server.to_string(),
                    phase: Phase::Transport,
                    problem: error.to_string(),
                    hint: "do the WebSocket path and host match the server's?",
                };
            }
            ConnectError::Io { server: server.to_string(), phase: Phase::Transport, source: Arc::new(error) }
        })
    };
    let stream = dialer.phase(server, Phase::Transport, trace, upgrade).await?;
    Ok(Box::new(stream))
}

fn accept_key(key: &str) -> String {
    let mut text = key.as_bytes().to_vec();
    text.extend_from_slice(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text))
}

async fn upgrade(mut stream: BoxStream, options: &ClientOptions, early: &[u8]) -> io::Result<WebSocket> {
    let key = STANDARD.encode(SystemRandom.array::<16>());
    let slash = if options.path.starts_with('/') { "" } else { "/" };
    let mut request = format!(
        "GET {slash}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n",
        options.path, options.authority,
    );
    if !early.is_empty() {
        let header = options.early_data_header.as_deref().filter(|h| !h.is_empty()).unwrap_or(EARLY_HEADER);
        request.push_str(&format!("{header}: {}\r\n", URL_SAFE_NO_PAD.encode(early)));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let (head, rest) = read_head(&mut stream).await?;
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(&head).map_err(|_| bad("the server's answer is no HTTP"))?;
    match response.code {
        Some(101) => {}
        Some(code) => {
            return Err(bad(&format!("the server answered HTTP {code} instead of switching to WebSocket")));
        }
        None => return Err(bad("the server's answer has no status")),
    }
    let accept = header(response.headers, "sec-websocket-accept");
    if accept != Some(accept_key(&key).as_str()) {
        return Err(bad("the server's WebSocket answer is not for this request"));
    }
    // Servers take the end of our direction, by a close frame or by FIN, for the end of both.
    Ok(websocket(stream, Role::Client, &rest).without_half_close())
}

type WebSocket = ChunkedStream<BoxStream>;

fn websocket(stream: BoxStream, role: Role, received: &[u8]) -> WebSocket {
    let open = NoHeader::new(Box::new(FrameOpen::default()));
    ChunkedStream::new(stream, Box::new(FrameSeal::new(role)), Box::new(open)).with_received(received)
}

/// Reads up to and with the empty line; what came behind it is returned apart.
async fn read_head(stream: &mut BoxStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut head = Vec::with_capacity(1024);
    loop {
        let searched = head.len().saturating_sub(3);
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection closed during the WebSocket upgrade",
            ));
        }
        if let Some(at) = head[searched..].windows(4).position(|w| w == b"\r\n\r\n") {
            let rest = head.split_off(searched + at + 4);
            return Ok((head, rest));
        }
        if head.len() > HEAD_LIMIT {
            return Err(bad("the WebSocket upgrade's head is too large"));
        }
    }
}

fn header<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a str> {
    headers.iter().find(|h| h.name.eq_ignore_ascii_case(name)).and_then(|h| std::str::from_utf8(h.value).ok())
}

fn bad(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// The server's side of the upgrade: the path must equal `path` (query apart). Early data in the
/// header named by the client becomes the first bytes of the stream.
pub async fn accept(mut stream: BoxStream, path: &str) -> io::Result<BoxStream> {
    let (head, rest) = read_head(&mut stream).await?;
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(&head).is_ok_and(|status| status.is_complete());
    let key = header(request.headers, "sec-websocket-key");
    let asked = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    let (Some(key), true) = (key, parsed && request.method == Some("GET")) else {
        refuse(&mut stream, "400 Bad Request").await?;
        return Err(bad("no WebSocket upgrade"));
    };
    if asked != path.split('?').next().unwrap_or_default() {
        refuse(&mut stream, "404 Not Found").await?;
        return Err(bad("a WebSocket upgrade for another path"));
    }
    let mut answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n",
        accept_key(key)
    );
    let mut early = Vec::new();
    if let Some(protocol) = header(request.headers, EARLY_HEADER) {
        let text: String = protocol
            .chars()
            .filter(|c| *c != '=')
            .map(|c| match c {
                '+' => '-',
                '/' => '_',
                other => other,
            })
            .collect();
        early = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        answer.push_str(&format!("{EARLY_HEADER}: {protocol}\r\n"));
    }
    answer.push_str("\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.flush().await?;
    let stream = websocket(stream, Role::Server, &rest);
    if early.is_empty() {
        return Ok(Box::new(stream));
    }
    Ok(Box::new(crate::prefixed::PrefixedStream::new(early.into(), stream)))
}

async fn refuse(stream: &mut BoxStream, status: &str) -> io::Result<()> {
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

type Upgrading = Pin<Box<dyn Future<Output = io::Result<WebSocket>> + Send>>;

enum Early {
    /// Nothing is written yet.
    Waiting {
        stream: Option<BoxStream>,
        options: ClientOptions,
        reader: Option<Waker>,
    },
    Upgrading(Upgrading),
    Open(WebSocket),
    Failed,
}

/// A WebSocket whose upgrade carries the first write.
struct EarlyStream {
    state: Early,
}

impl EarlyStream {
    /// The open stream, driving the upgrade; `Pending` too while nothing is written yet.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut WebSocket>> {
        if let Early::Upgrading(upgrading) = &mut self.state {
            match ready!(upgrading.as_mut().poll(cx)) {
                Ok(stream) => self.state = Early::Open(stream),
                Err(error) => {
                    self.state = Early::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        match &mut self.state {
            Early::Open(stream) => Poll::Ready(Ok(stream)),
            Early::Waiting { reader, .. } => {
                *reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Early::Upgrading(_) => Poll::Pending,
            Early::Failed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Starts the upgrade with the first written bytes; returns how many were taken.
    fn start(&mut self, first: &[u8]) -> Option<usize> {
        const TAKE: usize = 64 << 10;
        let Early::Waiting { stream, options, reader } = &mut self.state else {
            return None;
        };
        let stream = stream.take()?;
        let options = options.clone();
        let reader = reader.take();
        let taken = first.len().min(TAKE);
        let first = first[..taken].to_vec();
        self.state = Early::Upgrading(Box::pin(async move {
            if first.len() <= options.early_data {
                return upgrade(stream, &options, &first).await;
            }
            let mut open = upgrade(stream, &options, &[]).await?;
            open.write_all(&first).await?;
            open.flush().await?;
            Ok(open)
        }));
        if let Some(reader) = reader {
            reader.wake();
        }
        Some(taken)
    }
}

impl AsyncRead for EarlyStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let open = ready!(self.poll_open(cx))?;
        Pin::new(open).poll_read(cx, buf)
    }
}

impl AsyncWrite for EarlyStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(taken) = self.start(buf) {
            return Poll::Ready(Ok(taken));
        }
        let open = ready!(self.poll_open(cx))?;
        Pin::new(open).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.state, Early::Waiting { .. }) {
            return Poll::Ready(Ok(()));
        }
        let open = ready!(self.poll_open(cx))?;
        Pin::new(open).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.start(&[]);
        let open = ready!(self.poll_open(cx))?;
        Pin::new(open).poll_shutdown(cx)
    }
}

impl Stream for EarlyStream {
    fn raw_read(&self) -> Option<&TcpStream> {
        None
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        None
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        match &mut self.state {
            Early::Open(stream) => stream.lend_read(),
            Early::Waiting { .. } | Early::Upgrading(_) | Early::Failed => None,
        }
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        match &mut self.state {
            Early::Open(stream) => stream.lend_write(),
            Early::Waiting { .. } | Early::Upgrading(_) | Early::Failed => None,
        }
    }
}
