//! HTTP proxying (RFC 9110, 9112): CONNECT, and requests in absolute form.
//!
//! A CONNECT at the start of a connection, which is nearly all that browsers send, is answered
//! here; everything else is left to hyper, on both sides, so that framing is never our own.

mod forward;

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_wire::{Destination, Host};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use super::connection::{Incoming, is_ourselves};
use super::{HANDSHAKE_LIMIT, Login, Shared};
use crate::inbound::Dispatch;
use crate::inbound::flow::{Answer, Client};

/// The most bytes of a request's head.
pub(super) const MAX_HEAD: usize = 32 * 1024;
/// The most header lines of a request.
const MAX_HEADERS: usize = 100;
/// How often a client may try a login on one connection.
const MAX_TRIES: u32 = 8;

const NEEDS_LOGIN: &[u8] = b"HTTP/1.1 407 Proxy Authentication Required\r\n\
    Proxy-Authenticate: Basic realm=\"Culvert\", charset=\"UTF-8\"\r\nContent-Length: 0\r\n\r\n";

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What the first head of a connection is.
enum Head {
    Connect {
        target: Option<Destination>,
        minor: u8,
        length: usize,
        authorised: bool,
    },
    /// Any other request.
    Other,
    Incomplete,
}

pub(super) async fn serve<D: Dispatch>(mut incoming: Incoming, shared: &Shared, dispatch: &D) -> io::Result<()> {
    let deadline = Instant::now() + HANDSHAKE_LIMIT;
    let mut tries = 0;
    loop {
        match parse(&incoming.buffer, shared.login.as_ref()) {
            Err(status) => {
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                incoming.stream.write_all(answer.as_bytes()).await?;
                incoming.stream.shutdown().await?;
                return Err(broken("a request that is no HTTP"));
            }
            Ok(Head::Incomplete) => timeout_at(deadline, incoming.more()).await.map_err(|_| {
                io::Error::new(io::ErrorKind::TimedOut, "the client did not finish its request in time")
            })??,
            Ok(Head::Other) => return forward::serve(incoming, shared, dispatch).await,
            Ok(Head::Connect { length, authorised: false, .. }) => {
                // The connection stays open: many clients try without a login first.
                let _ = incoming.buffer.split_to(length);
                incoming.stream.write_all(NEEDS_LOGIN).await?;
                tries += 1;
                if tries >= MAX_TRIES {
                    return Err(broken("a client gave wrong logins"));
                }
            }
            Ok(Head::Connect { target, minor, length, authorised: true }) => {
                let Some(destination) = target.filter(|target| !is_ourselves(target, shared.local)) else {
                    incoming
                        .stream
                        .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                        .await?;
                    incoming.stream.shutdown().await?;
                    return Err(broken("a CONNECT to nowhere, or to the local port itself"));
                };
                // What follows the head belongs to the tunnel.
                let _ = incoming.buffer.split_to(length);
                let flow = incoming.flow(destination);
                dispatch.stream(flow, Client::new(incoming.into_stream(), Answer::HttpConnect { minor })).await;
                return Ok(());
            }
        }
    }
}

/// Reads the head that the buffer starts with; the error is a status line's text.
fn parse(buffer: &[u8], login: Option<&Login>) -> Result<Head, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let status = match request.parse(buffer) {
        Ok(status) => status,
        Err(httparse::Error::TooManyHeaders) => return Err("431 Request Header Fields Too Large"),
        // The HTTP/2 preface, among others.
        Err(httparse::Error::Version) => return Err("505 HTTP Version Not Supported"),
        Err(
            httparse::Error::HeaderName
            | httparse::Error::HeaderValue
            | httparse::Error::NewLine
            | httparse::Error::Status
            | httparse::Error::Token,
        ) => return Err("400 Bad Request"),
    };
    let httparse::Status::Complete(length) = status else {
        return if buffer.len() >= MAX_HEAD {
            Err("431 Request Header Fields Too Large")
        } else {
            Ok(Head::Incomplete)
        };
    };
    let mut lengths = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("content-length"));
    let (first, second) = (lengths.next(), lengths.next());
    let chunked = request.headers.iter().any(|header| header.name.eq_ignore_ascii_case("transfer-encoding"));
    // Two framings of one message are how requests are smuggled.
    if second.is_some() || (first.is_some() && chunked) {
        return Err("400 Bad Request");
    }
    if !request.method.is_some_and(|method| method.eq_ignore_ascii_case("CONNECT")) {
        return Ok(Head::Other);
    }
    let authorised = login.is_none_or(|login| {
        request
            .headers
            .iter()
            .any(|header| header.name.eq_ignore_ascii_case("proxy-authorization") && is_authorised(login, header.value))
    });
    let target = request.path.and_then(|path| authority(path, 443));
    Ok(Head::Connect { target, minor: request.version.unwrap_or(1), length, authorised })
}

/// Whether the value of a `Proxy-Authorization` header carries the login.
fn is_authorised(login: &Login, value: &[u8]) -> bool {
    let Some((scheme, token)) = std::str::from_utf8(value).ok().and_then(|text| text.trim().split_once(' ')) else {
        return false;
    };
    if !scheme.eq_ignore_ascii_case("basic") {
        return false;
    }
    let Ok(decoded) = STANDARD.decode(token.trim()) else { return false };
    let mut parts = decoded.splitn(2, |byte| *byte == b':');
    match (parts.next(), parts.next()) {
        (Some(user), Some(password)) => login.matches(user, password),
        _ => false,
    }
}

/// `host`, `host:port` or `[v6]:port`.
fn authority(text: &str, default_port: u16) -> Option<Destination> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') && (!host.contains(':') || host.starts_with('[')) => {
            (host, if port.is_empty() { default_port } else { port.parse().ok()? })
        }
        _ => (text, default_port),
    };
    (port != 0).then(|| Host::parse(host).ok().map(|host| Destination::new(host, port))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        let show = |text: &str| authority(text, 443).map(|target| target.to_string());
        assert_eq!(show("example.com:8443").as_deref(), Some("example.com:8443"));
        assert_eq!(show("example.com").as_deref(), Some("example.com:443"));
        assert_eq!(show("example.com:").as_deref(), Some("example.com:443"));
        assert_eq!(show("[::1]:443").as_deref(), Some("[::1]:443"));
        assert_eq!(show("[2001:db8::1]").as_deref(), Some("[2001:db8::1]:443"));
        assert_eq!(show("::1").as_deref(), Some("[::1]:443"));
        assert_eq!(show("example.com:0"), None);
        assert_eq!(show("example.com:70000"), None);
        assert_eq!(show("user@example.com:1"), None);
        assert_eq!(show(""), None);
    }

    #[test]
    fn logins() {
        let login = Login::new("us er", "p:w").unwrap();
        let value = |text: &str| format!("bAsIc {}", STANDARD.encode(text));
        assert!(is_authorised(&login, value("us er:p:w").as_bytes()));
        assert!(!is_authorised(&login, value("us er:p").as_bytes()));
        assert!(!is_authorised(&login, b"Basic !!!"));
        assert!(!is_authorised(&login, b"Digest x"));
    }
}
