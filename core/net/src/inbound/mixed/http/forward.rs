//! Requests in absolute form: each is routed anew, with hyper framing both sides.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use culvert_wire::Destination;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming as Body;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::oneshot;

use super::super::connection::{INBOUND, Incoming, is_ourselves};
use super::super::{Login, Shared};
use super::{MAX_HEAD, MAX_HEADERS, authority, is_authorised};
use crate::inbound::flow::{Client, Refusal};
use crate::inbound::{Dispatch, Flow};

/// How long an idle client connection is kept.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// Bytes in the pipe between hyper and the flow.
const PIPE: usize = 64 * 1024;

type Outgoing = BoxBody<Bytes, hyper::Error>;

/// An upstream connection that may carry the client's next request to the same place.
type Kept = Rc<RefCell<Option<(Destination, SendRequest<Body>)>>>;

/// Serves requests on one connection until it ends.
pub(super) async fn serve<D: Dispatch>(incoming: Incoming, shared: &Shared, dispatch: &D) -> io::Result<()> {
    let context = Rc::new(Context {
        source: incoming.source,
        local: incoming.local,
        port: shared.local,
        login: shared.login.clone(),
        dispatch: dispatch.clone(),
        kept: Kept::default(),
    });
    let service = service_fn(move |request| {
        let context = Rc::clone(&context);
        async move { Ok::<_, Infallible>(context.answer(request).await) }
    });
    server::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_LIMIT)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .half_close(true)
        .keep_alive(true)
        .serve_connection(TokioIo::new(incoming.into_stream()), service)
        .with_upgrades()
        .await
        .map_err(io::Error::other)
}

/// What the requests of one connection share.
struct Context<D> {
    source: std::net::SocketAddr,
    local: std::net::SocketAddr,
    /// Where the port itself listens.
    port: std::net::SocketAddr,
    login: Option<Login>,
    dispatch: D,
    kept: Kept,
}

/// A response of ours: a status, and a word to the person in front of the browser.
fn plain(status: StatusCode, text: &'static str) -> Response<Outgoing> {
    let mut response =
        Response::new(Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn empty() -> Outgoing {
    Empty::new().map_err(|never| match never {}).boxed()
}

fn refused(refusal: Refusal) -> Response<Outgoing> {
    let (status, text) = refusal.http();
    plain(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY), text)
}

impl<D: Dispatch> Context<D> {
    async fn answer(&self, mut request: Request<Body>) -> Response<Outgoing> {
        if let Some(login) = &self.login {
            let given = request.headers().get_all(header::PROXY_AUTHORIZATION);
            if !given.iter().any(|value| is_authorised(login, value.as_bytes())) {
                let mut response = plain(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "");
                let wanted = HeaderValue::from_static("Basic realm=\"Culvert\", charset=\"UTF-8\"");
                response.headers_mut().insert(header::PROXY_AUTHENTICATE, wanted);
                return response;
            }
        }
        let connect = request.method() == Method::CONNECT;
        let target =
            request.uri().authority().and_then(|name| authority(name.as_str(), if connect { 443 } else { 80 }));
        let Some(target) = target.filter(|target| !is_ourselves(target, self.port)) else {
            return plain(StatusCode::BAD_REQUEST, "Culvert: this port is a proxy; it serves no pages of its own.\n");
        };
        if connect {
            return self.tunnel(request, target).await;
        }
        if request.uri().scheme_str() != Some("http") {
            return plain(StatusCode::BAD_REQUEST, "Culvert: an https address must be asked for with CONNECT.\n");
        }
        let upgrade = request.headers().get(header::UPGRADE).cloned().filter(|_| names(request.headers(), "upgrade"));
        let client_side = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        prepare(&mut request, upgrade.as_ref());
        let mut sender = match self.sender(&target).await {
            Ok(sender) => sender,
            Err(refusal) => return refused(refusal),
        };
        match sender.send_request(request).await {
            Ok(response) => {
                *self.kept.borrow_mut() = Some((target, sender));
                finish(response, client_side)
            }
            Err(error) => {
                tracing::debug!(%error, "a server broke off a proxied request");
                refused(Refusal::Failed)
            }
        }
    }

    /// A connection to `target`: the last one, if it goes there and still works, or a new one.
    async fn sender(&self, target: &Destination) -> Result<SendRequest<Body>, Refusal> {
        let kept = self.kept.borrow_mut().take();
        if let Some((known, mut sender)) = kept
            && known == *target
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (answer, answered) = oneshot::channel();
        let flow = self.flow(target.clone());
        let dispatch = self.dispatch.clone();
        tokio::task::spawn_local(async move {
            let (stream, later) = oneshot::channel();
            let _ = stream.send(Box::new(theirs) as _);
            dispatch.stream(flow, Client::later(later, answer)).await;
        });
        answered.await.unwrap_or(Err(Refusal::Failed))?;
        let (sender, connection) = client::handshake(TokioIo::new(ours)).await.map_err(|_| Refusal::Failed)?;
        tokio::task::spawn_local(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a proxied server connection broke");
            }
        });
        Ok(sender)
    }

    /// CONNECT on a connection that has carried other requests before.
    async fn tunnel(&self, mut request: Request<Body>, target: Destination) -> Response<Outgoing> {
        let upgraded = hyper::upgrade::on(&mut request);
        let (answer, answered) = oneshot::channel();
        let (stream, later) = oneshot::channel();
        let flow = self.flow(target);
        let dispatch = self.dispatch.clone();
        tokio::task::spawn_local(async move { dispatch.stream(flow, Client::later(later, answer)).await });
        tokio::task::spawn_local(async move {
            if let Ok(upgraded) = upgraded.await {
                let (mut ours, theirs) = tokio::io::duplex(PIPE);
                let _ = stream.send(Box::new(theirs) as _);
                // Both ends close their own way; there is no one to tell.
                let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut ours).await;
            }
        });
        match answered.await.unwrap_or(Err(Refusal::Failed)) {
            Ok(()) => Response::new(empty()),
            Err(refusal) => refused(refusal),
        }
    }

    fn flow(&self, destination: Destination) -> Flow {
        Flow { source: self.source, local: self.local, destination, inbound: INBOUND }
    }
}

/// Whether `Connection` names `token`.
fn names(headers: &HeaderMap, token: &str) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| {
        value.to_str().is_ok_and(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    })
}

/// Takes off what belongs to one hop only: the fixed list of RFC 9110 §7.6.1 and whatever
/// `Connection` names. Credentials for the proxy never go on.
fn strip_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(|part| part.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TRAILER,
        header::UPGRADE,
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("keep-alive"),
    ] {
        headers.remove(name);
    }
    if headers.get(header::TE).is_some_and(|te| !te.as_bytes().eq_ignore_ascii_case(b"trailers")) {
        headers.remove(header::TE);
    }
}

/// From absolute form to what the origin expects.
fn prepare(request: &mut Request<Body>, upgrade: Option<&HeaderValue>) {
    let host = request.uri().authority().map(|authority| {
        let text = authority.as_str();
        text.rsplit_once('@').map_or(text, |(_, host)| host).to_owned()
    });
    let path = match request.uri().path_and_query().map(hyper::http::uri::PathAndQuery::as_str) {
        None | Some("" | "/") if request.method() == Method::OPTIONS => "*",
        None | Some("") => "/",
        Some(path) => path,
    };
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    strip_hop(headers);
    if let Some(host) = host.and_then(|host| HeaderValue::from_str(&host).ok()) {
        headers.insert(header::HOST, host);
    }
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocol.clone());
    }
}

/// The server's response as the client gets it; a 101 joins the two connections.
fn finish(mut response: Response<Body>, client_side: Option<OnUpgrade>) -> Response<Outgoing> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(client_side) = client_side else {
            return plain(StatusCode::BAD_GATEWAY, "Culvert: the server switched protocols without being asked.\n");
        };
        let server_side = hyper::upgrade::on(&mut response);
        tokio::task::spawn_local(async move {
            if let (Ok(client), Ok(server)) = (client_side.await, server_side.await) {
                // Both ends close their own way; there is no one to tell.
                let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
            }
        });
        let (parts, _) = response.into_parts();
        return Response::from_parts(parts, empty());
    }
    strip_hop(response.headers_mut());
    response.map(BodyExt::boxed)
}
