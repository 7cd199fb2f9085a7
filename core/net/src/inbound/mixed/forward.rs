//! Requests in absolute form: each goes to its own host over a connection of its own, which the
//! server is asked to close; the client's connection is kept where the answer's end can be told.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use culvert_wire::http::{Body, has_token, is_hop_by_hop};
use culvert_wire::{Destination, Network};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

use super::http::{HEAD_LIMIT, HEADERS, Request, authority, number, refusal};
use super::incoming::Incoming;
use super::{Port, malformed};
use crate::inbound::flow::{Answer, Client, status_for};
use crate::prefixed::PrefixedStream;
use crate::relay::{Counters, Limits, relay};
use crate::stream::BoxStream;

/// What lies in memory between the forwarding and the flow.
const PIPE: usize = 64 << 10;

/// Where a request goes, and its target there.
fn split(request: &Request) -> Result<(Destination, String, String), &'static str> {
    let Some((scheme, rest)) = request.target.split_once("://") else {
        return Err("Culvert: this is a proxy; a request to it names its whole URL\n");
    };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("ws") {
        return Err("Culvert: only http:// is forwarded; for others use CONNECT\n");
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let destination = authority(host, 80).ok_or("Culvert: the URL has no usable host\n")?;
    let path = path.split('#').next().unwrap_or_default();
    let path = match path {
        "" if request.method == "OPTIONS" => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    Ok((destination, path, host.to_owned()))
}

/// The head as it goes to the server.
fn head_for_server(request: &Request, path: &str, host: &str, upgrade: bool) -> Vec<u8> {
    let mut head = format!("{} {path} HTTP/1.{}\r\nHost: {host}\r\n", request.method, request.minor).into_bytes();
    let connection = &request.list("connection");
    for (name, value) in &request.headers {
        let named = has_token(connection, name);
        let upgrading = upgrade && name.eq_ignore_ascii_case("upgrade");
        let own =
            name.eq_ignore_ascii_case("host") || (request.is_chunked() && name.eq_ignore_ascii_case("content-length"));
        // A body is passed on as it is coded, so its coding is, whatever Connection says.
        let framing = name.eq_ignore_ascii_case("transfer-encoding") || name.eq_ignore_ascii_case("content-length");
        if !own && (framing || upgrading || (!named && !is_hop_by_hop(name))) {
            put_header(&mut head, name, value);
        }
    }
    if has_token(&request.list("te"), "trailers") {
        put_header(&mut head, "TE", b"trailers");
        head.extend_from_slice(b"Connection: close, TE\r\n\r\n");
    } else if upgrade {
        head.extend_from_slice(b"Connection: Upgrade\r\n\r\n");
    } else {
        head.extend_from_slice(b"Connection: close\r\n\r\n");
    }
    head
}

fn put_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

impl Request {
    fn is_chunked(&self) -> bool {
        matches!(self.body, Body::Chunked(_))
    }
}

/// Forwards one request; gives the client back when it may ask again.
pub(super) async fn serve(
    client: Incoming,
    request: Request,
    peer: SocketAddr,
    port: &Port,
    user: Option<Arc<str>>,
) -> io::Result<Option<Incoming>> {
    let (destination, path, host) = match split(&request) {
        Ok(split) => split,
        Err(text) => {
            client.send_last(&refusal(request.minor, "400 Bad Request", text)).await?;
            return Ok(None);
        }
    };
    if port.is_ourselves(&destination) {
        let text = "Culvert: that is this proxy itself\n";
        client.send_last(&refusal(request.minor, "403 Forbidden", text)).await?;
        return Ok(None);
    }
    let upgrade = has_token(&request.list("connection"), "upgrade") && request.header("upgrade").is_some();
    let head = head_for_server(&request, &path, &host, upgrade);

    let (near, far) = tokio::io::duplex(PIPE);
    let (told, tell) = oneshot::channel();
    let flow = port.flow(peer, destination, Network::Tcp, user);
    let waiting = Client { stream: Box::new(far), answer: Answer::Forward(told) };
    let serving = tokio::spawn(port.dispatch.dispatch_stream(flow, waiting));
    // The flow ends with this request, whatever happens to it here.
    let _ends = EndWith(serving.abort_handle());
    match tell.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let (status, text) = status_for(&error);
            client.send_last(&refusal(request.minor, status, &text)).await?;
            return Ok(None);
        }
        Err(_) => {
            let text = "Culvert: the connection was closed\n";
            client.send_last(&refusal(request.minor, "502 Bad Gateway", text)).await?;
            return Ok(None);
        }
    }
    exchange(client, request, Box::new(near), &head, upgrade).await
}

/// How long an answer is waited for when the client has closed its side.
const AFTER_CLOSE: std::time::Duration = std::time::Duration::from_secs(60);

struct EndWith(tokio::task::AbortHandle);

impl Drop for EndWith {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn exchange(
    client: Incoming,
    request: Request,
    mut server: BoxStream,
    head: &[u8],
    upgrade: bool,
) -> io::Result<Option<Incoming>> {
    let Incoming { mut stream, mut held } = client;
    server.write_all(head).await?;
    let Request { method, minor, mut body, keep, .. } = request;
    let mut answered = Answered::default();
    let mut from_server = BytesMut::new();
    {
        let (mut client_read, mut client_write) = stream.split();
        let (mut server_read, mut server_write) = tokio::io::split(&mut server);
        let upload = async {
            pass_body(&mut body, &mut held, &mut client_read, &mut server_write).await?;
            server_write.flush().await?;
            // What follows belongs to the next request; its end says that the client may have left.
            while held.len() < HEAD_LIMIT {
                held.reserve(1024);
                if client_read.read_buf(&mut held).await? == 0 {
                    return Ok::<(), io::Error>(());
                }
            }
            std::future::pending().await
        };
        let download =
            answer(&mut server_read, &mut from_server, &mut client_write, &method, minor, keep, &mut answered);
        tokio::pin!(upload, download);
        let mut uploaded = false;
        // A client that has closed its side may still read; one that has left must not keep the flow.
        let gone = tokio::time::sleep(AFTER_CLOSE);
        tokio::pin!(gone);
        let mut closed = false;
        loop {
            tokio::select! {
                result = &mut upload, if !uploaded => {
                    uploaded = true;
                    match result {
                        Ok(()) => {
                            closed = true;
                            gone.as_mut().reset(tokio::time::Instant::now() + AFTER_CLOSE);
                        }
                        // The client broke off, or sent what no server could read: nothing to wait for.
                        Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {
                            return Err(error);
                        }
                        // A server that stops reading may still answer why.
                        Err(error) => tracing::debug!("a request's body was not sent whole: {error}"),
                    }
                }
                () = &mut gone, if closed => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the client closed and no answer came"));
                }
                result = &mut download => {
                    result?;
                    break;
                }
            }
        }
    }
    if answered.switched && upgrade {
        let client = PrefixedStream::new(held.freeze(), stream);
        let mut server = PrefixedStream::new(from_server.freeze(), server);
        let mut client: BoxStream = Box::new(client);
        relay(&mut client, &mut server, &Counters::default(), Limits::default()).await;
        return Ok(None);
    }
    let client = Incoming { stream, held };
    if answered.keep && body.is_done() {
        return Ok(Some(client));
    }
    client.send_last(&[]).await?;
    Ok(None)
}

/// Passes a body on as it is; what follows it stays in `held`.
async fn pass_body<R, W>(body: &mut Body, held: &mut BytesMut, from: &mut R, to: &mut W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    while !body.is_done() {
        if held.is_empty() {
            held.reserve(32 << 10);
            if from.read_buf(held).await? == 0 {
                return match body {
                    Body::UntilClose => Ok(()),
                    Body::Empty | Body::Length(_) | Body::Chunked(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
        let amount = body.advance(held).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        to.write_all(&held[..amount]).await?;
        held.advance(amount);
    }
    Ok(())
}

#[derive(Default)]
struct Answered {
    keep: bool,
    switched: bool,
}

/// Passes the answer on, with any number of interim ones in front.
async fn answer<R, W>(
    from: &mut R,
    held: &mut BytesMut,
    to: &mut W,
    method: &str,
    minor: u8,
    keep: bool,
    answered: &mut Answered,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let head = match read_answer(from, held).await {
            Ok(head) => head,
            Err(error) => {
                tracing::debug!("a server's answer is unusable: {error}");
                let text = "Culvert: the server closed the connection or answered with something that is no HTTP\n";
                return to.write_all(&refusal(minor, "502 Bad Gateway", text)).await;
            }
        };
        if head.status == 101 {
            to.write_all(&head.for_client(minor, None)).await?;
            answered.switched = true;
            return Ok(());
        }
        if (100..200).contains(&head.status) {
            // HTTP/1.0 knows no interim answers.
            if minor == 1 {
                to.write_all(&head.for_client(minor, None)).await?;
            }
            continue;
        }
        let mut body = head.body(method)?;
        let ends = !matches!(body, Body::UntilClose);
        answered.keep = keep && ends;
        to.write_all(&head.for_client(minor, Some(answered.keep))).await?;
        let passed = pass_body(&mut body, held, from, to).await;
        if passed.is_err() {
            // The client must see that the body is cut short.
            answered.keep = false;
        }
        return Ok(());
    }
}

struct AnswerHead {
    status: u16,
    reason: String,
    headers: Vec<(String, Vec<u8>)>,
}

async fn read_answer<R: AsyncRead + Unpin>(from: &mut R, held: &mut BytesMut) -> io::Result<AnswerHead> {
    loop {
        {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut parsed = httparse::Response::new(&mut headers);
            match parsed.parse(held) {
                Ok(httparse::Status::Complete(length)) => {
                    let head = AnswerHead {
                        status: parsed.code.unwrap_or(502),
                        reason: parsed.reason.unwrap_or_default().to_owned(),
                        headers: parsed.headers.iter().map(|h| (h.name.to_owned(), h.value.to_vec())).collect(),
                    };
                    held.advance(length);
                    return Ok(head);
                }
                Ok(httparse::Status::Partial) if held.len() <= HEAD_LIMIT * 2 => {}
                Ok(httparse::Status::Partial) | Err(_) => return Err(malformed("a server's answer is no HTTP/1")),
            }
        }
        held.reserve(8 << 10);
        if from.read_buf(held).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

impl AnswerHead {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_slice())
    }

    /// Where the body ends (RFC 9112 §6.3).
    fn body(&self, method: &str) -> io::Result<Body> {
        if method == "HEAD" || matches!(self.status, 204 | 304) {
            return Ok(Body::Empty);
        }
        if let Some(coding) = self.values("transfer-encoding").last() {
            let chunked = coding.to_ascii_lowercase().ends_with(b"chunked");
            return Ok(if chunked { Body::chunked() } else { Body::UntilClose });
        }
        let mut lengths = self.values("content-length");
        let Some(first) = lengths.next() else { return Ok(Body::UntilClose) };
        if lengths.any(|other| other != first) {
            return Err(malformed("an answer has two lengths"));
        }
        Ok(Body::Length(number(first)?))
    }

    /// The head as it goes to the client. `keep`: whether its connection is kept (`None` for an
    /// interim answer).
    fn for_client(&self, minor: u8, keep: Option<bool>) -> Vec<u8> {
        let mut head = format!("HTTP/1.{minor} {} {}\r\n", self.status, self.reason).into_bytes();
        let connection: Vec<u8> = self.values("connection").collect::<Vec<_>>().join(&b","[..]);
        let connection = String::from_utf8_lossy(&connection);
        let coded = self.values("transfer-encoding").next().is_some();
        for (name, value) in &self.headers {
            let framing = name.eq_ignore_ascii_case("transfer-encoding") || name.eq_ignore_ascii_case("content-length");
            let switching = self.status == 101 && name.eq_ignore_ascii_case("upgrade");
            let doubled = coded && name.eq_ignore_ascii_case("content-length");
            let trailer = name.eq_ignore_ascii_case("trailer");
            let passed = framing || switching || trailer || !(has_token(&connection, name) || is_hop_by_hop(name));
            if passed && !doubled {
                put_header(&mut head, name, value);
            }
        }
        if self.status == 101 {
            head.extend_from_slice(b"Connection: Upgrade\r\n");
        }
        match keep {
            Some(true) => head.extend_from_slice(b"Connection: keep-alive\r\n"),
            Some(false) => head.extend_from_slice(b"Connection: close\r\n"),
            None => {}
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}
