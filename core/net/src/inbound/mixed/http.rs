//! HTTP on the mixed port: heads, logins, CONNECT. Requests in absolute form are forwarded by
//! [`super::forward`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_wire::http::{Body, has_token};
use culvert_wire::{Destination, Host, Network};

use super::incoming::Incoming;
use super::{HANDSHAKE, Port, forward, malformed, within};
use crate::inbound::flow::{Answer, Client};

/// The most bytes of a request's head.
pub(super) const HEAD_LIMIT: usize = 32 << 10;
/// The most headers.
pub(super) const HEADERS: usize = 100;
/// How long a connection is kept for the next request.
const KEEP: Duration = Duration::from_secs(120);

/// A request's head, parsed and checked.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) minor: u8,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Body,
    /// Whether the client wants the connection kept.
    pub(super) keep: bool,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }

    /// All values of a list header, as one list: a header may come on several lines.
    pub(super) fn list(&self, name: &str) -> String {
        let values = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let texts: Vec<&str> = values.filter_map(|(_, value)| std::str::from_utf8(value).ok()).collect();
        texts.join(",")
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
    }
}

/// Serves requests until the client has no more, or one takes the connection over.
pub(super) async fn serve(mut client: Incoming, peer: SocketAddr, port: &Port) -> io::Result<()> {
    let mut user: Option<Arc<str>> = None;
    loop {
        let request = match within(HANDSHAKE, read_request(&mut client)).await {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    client.send_last(&refusal(1, "400 Bad Request", "Culvert: the request is malformed\n")).await?;
                }
                return Err(error);
            }
        };
        if let Some(login) = &port.options.login {
            if user.is_none() && credentials(&request).is_some_and(|(name, password)| login.matches(&name, &password)) {
                user = Some(login.user.as_str().into());
            }
            if user.is_none() {
                // Clients come back on the same connection; only one with a body can't.
                let keep = request.keep && request.body.is_done() && request.method != "CONNECT";
                let keep = keep || (request.method == "CONNECT" && request.minor == 1 && client.held.is_empty());
                let answer = format!(
                    "HTTP/1.{} 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"Culvert\"\r\nContent-Length: 0\r\nConnection: {}\r\n\r\n",
                    request.minor,
                    if keep { "keep-alive" } else { "close" },
                );
                if !keep {
                    return client.send_last(answer.as_bytes()).await;
                }
                client.send(answer.as_bytes()).await?;
                if !wait_for_next(&mut client).await? {
                    return Ok(());
                }
                continue;
            }
        }
        if request.method.eq_ignore_ascii_case("CONNECT") {
            return connect(client, &request, peer, port, user).await;
        }
        match forward::serve(client, request, peer, port, user.clone()).await? {
            Some(again) => client = again,
            None => return Ok(()),
        }
        if !wait_for_next(&mut client).await? {
            return Ok(());
        }
    }
}

async fn wait_for_next(client: &mut Incoming) -> io::Result<bool> {
    match tokio::time::timeout(KEEP, client.first_byte()).await {
        Ok(first) => Ok(first?.is_some()),
        Err(_) => Ok(false),
    }
}

/// An answer that ends the connection.
pub(super) fn refusal(minor: u8, status: &str, text: &str) -> Vec<u8> {
    format!(
        "HTTP/1.{minor} {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

/// Reads one head; `None` when the client closes in front of it.
async fn read_request(client: &mut Incoming) -> io::Result<Option<Request>> {
    loop {
        // Some clients send an empty line behind a body (RFC 9112 §2.2).
        while client.held.starts_with(b"\r\n") {
            let _line = client.held.split_to(2);
        }
        if let Some((request, length)) = parse_request(&client.held)? {
            let _head = client.held.split_to(length);
            return Ok(Some(request));
        }
        if client.held.len() > HEAD_LIMIT {
            return Err(malformed("a request's head is larger than 32 KiB"));
        }
        if !client.more().await? {
            return if client.held.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    }
}

fn parse_request(bytes: &[u8]) -> io::Result<Option<(Request, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_LIMIT => length,
        Ok(httparse::Status::Complete(_)) => return Err(malformed("a request's head is larger than 32 KiB")),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(malformed("a request is no HTTP/1")),
    };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(malformed("a request without a first line"));
    };
    let headers: Vec<(String, Vec<u8>)> =
        parsed.headers.iter().map(|h| (h.name.to_owned(), h.value.to_vec())).collect();
    let body = body_of(&headers)?;
    let mut request =
        Request { method: method.to_owned(), target: target.to_owned(), minor, headers, body, keep: false };
    let connection = format!("{},{}", request.list("connection"), request.list("proxy-connection"));
    request.keep = if minor == 1 { !has_token(&connection, "close") } else { has_token(&connection, "keep-alive") };
    Ok(Some((request, length)))
}

/// Where a request's body ends. Anything that two readers might take differently is refused.
fn body_of(headers: &[(String, Vec<u8>)]) -> io::Result<Body> {
    let values = |name: &str| {
        headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_slice()).collect::<Vec<_>>()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Body::Empty),
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Body::chunked()),
        ([first, rest @ ..], []) if rest.iter().all(|r| r == first) => Ok(Body::Length(number(first)?)),
        _ => Err(malformed("a request's body has an unclear length")),
    }
}

/// A Content-Length: digits only.
pub(super) fn number(text: &[u8]) -> io::Result<u64> {
    std::str::from_utf8(text)
        .ok()
        .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed("a Content-Length is no number"))
}

fn credentials(request: &Request) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = request.text("proxy-authorization").split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let mut both = STANDARD.decode(rest.trim()).ok()?;
    let colon = both.iter().position(|b| *b == b':')?;
    let password = both.split_off(colon + 1);
    both.pop();
    Some((both, password))
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`.
pub(super) fn authority(text: &str, default_port: u16) -> Option<Destination> {
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text[colon..].contains(']') => {
            // A bare IPv6 address has no port to split off.
            if !text.starts_with('[') && text[..colon].contains(':') {
                (text, default_port)
            } else if colon + 1 == text.len() {
                (&text[..colon], default_port)
            } else {
                let digits = &text[colon + 1..];
                let digits = digits.bytes().all(|b| b.is_ascii_digit()).then_some(digits)?;
                (&text[..colon], digits.parse().ok()?)
            }
        }
        Some(_) | None => (text, default_port),
    };
    (port != 0).then_some(())?;
    Some(Destination::new(Host::parse(host).ok()?, port))
}

async fn connect(
    client: Incoming,
    request: &Request,
    peer: SocketAddr,
    port: &Port,
    user: Option<Arc<str>>,
) -> io::Result<()> {
    let Some(destination) = authority(&request.target, 443) else {
        return client
            .send_last(&refusal(request.minor, "400 Bad Request", "Culvert: CONNECT needs host:port\n"))
            .await;
    };
    if port.is_ourselves(&destination) {
        return client
            .send_last(&refusal(request.minor, "403 Forbidden", "Culvert: that is this proxy itself\n"))
            .await;
    }
    let flow = port.flow(peer, destination, Network::Tcp, user);
    let client = Client { stream: client.into_stream(), answer: Answer::Http { minor: request.minor } };
    port.dispatch.dispatch_stream(flow, client).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        let text = |a: &str| authority(a, 443).map(|d| d.to_string());
        assert_eq!(text("a.b:80").as_deref(), Some("a.b:80"));
        assert_eq!(text("a.b").as_deref(), Some("a.b:443"));
        assert_eq!(text("[::1]:8080").as_deref(), Some("[::1]:8080"));
        assert_eq!(text("[::1]").as_deref(), Some("[::1]:443"));
        assert_eq!(text("::1").as_deref(), Some("[::1]:443"));
        for bad in ["", ":80", "a:b", "a:0", "a:65536", "a:+1", "u@a:80"] {
            assert_eq!(text(bad), None, "{bad}");
        }
    }

    #[test]
    fn unclear_bodies_are_refused() {
        let parse = |headers: &str| {
            parse_request(format!("POST http://a/ HTTP/1.1\r\n{headers}\r\n").as_bytes()).map(|r| r.unwrap().0.body)
        };
        assert_eq!(parse("Content-Length: 3\r\n").unwrap(), Body::Length(3));
        assert_eq!(parse("Transfer-Encoding: Chunked\r\n").unwrap(), Body::chunked());
        for bad in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 3\r\nContent-Length: 4\r\n",
            "Content-Length: +3\r\n",
            "Content-Length: 3, 3\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding : chunked\r\n",
            " folded: x\r\n",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
