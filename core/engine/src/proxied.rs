//! A page through the local port, as a browser would fetch it: for the self-check and for tests.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What came.
#[derive(Debug, Clone)]
pub struct Downloaded {
    /// HTTP status.
    pub status: u16,
    /// Bytes of the body that came.
    pub bytes: u64,
    /// Time from the first byte of the body to the last.
    pub duration: Duration,
    /// The first bytes of the body, at most 4 KiB.
    pub beginning: Vec<u8>,
}

/// Fetches the http address `url` through the HTTP proxy at `proxy`, for at most `limit`.
///
/// # Errors
/// What failed, in words.
pub async fn download(proxy: SocketAddr, url: &str, limit: Duration) -> Result<Downloaded, String> {
    let deadline = tokio::time::Instant::now() + limit;
    let fetch = async {
        let stream = TcpStream::connect(proxy).await.map_err(|error| format!("the local port {proxy}: {error}"))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("the local port {proxy}: {error}"))?;
        let driver = tokio::spawn(connection);
        let host = url.split('/').nth(2).unwrap_or_default();
        let request = Request::get(url)
            .header(http::header::HOST, host)
            .body(Empty::<Bytes>::new())
            .map_err(|error| format!("{url}: {error}"))?;
        let response = sender.send_request(request).await.map_err(|error| format!("{url}: {error}"))?;
        Ok::<_, String>((sender, driver, response))
    };
    let (_sender, driver, response) =
        tokio::time::timeout_at(deadline, fetch).await.map_err(|_| format!("{url}: no answer in time"))??;
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut downloaded = Downloaded { status, bytes: 0, duration: Duration::ZERO, beginning: Vec::new() };
    let started = Instant::now();
    while let Ok(Some(frame)) = tokio::time::timeout_at(deadline, body.frame()).await {
        let frame = frame.map_err(|error| format!("{url}: the body ended early: {error}"))?;
        if let Some(data) = frame.data_ref() {
            downloaded.bytes += data.len() as u64;
            let room = 4_096_usize.saturating_sub(downloaded.beginning.len());
            downloaded.beginning.extend_from_slice(&data[..data.len().min(room)]);
        }
        downloaded.duration = started.elapsed();
    }
    driver.abort();
    Ok(downloaded)
}
