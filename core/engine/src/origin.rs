//! A small web server on this computer: what the demo's flows reach, and what tests fetch.
//!
//! `/generate_204`, a page at `/`, `/__down?bytes=N` and `/__up`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The page at `/`.
pub const PAGE: &str = "<!doctype html><title>Culvert demo</title><p>This page came through the demo server.\n";
/// One piece of a download.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The running server; ends when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Origin {
    /// Starts on a free port of the loopback address.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(accept(listener)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a page, such as `/generate_204`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn accept(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of descriptors, most likely: wait for some to come back.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        connections.spawn(async move {
            // A visitor that leaves early is no concern.
            let _ = hyper::server::conn::http1::Builder::new()
                .half_close(true)
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

type Answer = Response<Either<Full<Bytes>, Zeros>>;

async fn answer(request: Request<Incoming>) -> Result<Answer, Infallible> {
    let path = request.uri().path().to_owned();
    let text = |status, text: &'static str| {
        let mut response = Response::new(Either::Left(Full::new(Bytes::from_static(text.as_bytes()))));
        *response.status_mut() = status;
        response
    };
    Ok(match path.as_str() {
        "/generate_204" => text(StatusCode::NO_CONTENT, ""),
        "/" => text(StatusCode::OK, PAGE),
        "/__down" => {
            let bytes = request
                .uri()
                .query()
                .and_then(|query| query.split('&').find_map(|part| part.strip_prefix("bytes=")))
                .and_then(|count| count.parse().ok())
                .unwrap_or(0);
            Response::new(Either::Right(Zeros { left: bytes }))
        }
        "/__up" if request.method() == Method::POST => {
            let mut body = request.into_body();
            let mut received = 0_u64;
            while let Some(Ok(frame)) = body.frame().await {
                received += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            Response::new(Either::Left(Full::new(Bytes::from(received.to_string()))))
        }
        _ => text(StatusCode::NOT_FOUND, "there is no such page\n"),
    })
}

/// So many zero bytes, never copied.
#[derive(Debug)]
struct Zeros {
    left: u64,
}

impl Body for Zeros {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let amount = usize::try_from(self.left).unwrap_or(usize::MAX).min(ZEROS.len());
        self.left -= amount as u64;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&ZEROS[..amount])))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
