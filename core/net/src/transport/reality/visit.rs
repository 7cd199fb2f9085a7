//! A browser's visit to the site that a REALITY server hides behind: what an observer sees when
//! the proof failed is a page being read.

use std::future::poll_fn;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::browser_tls::TlsConnection;
use crate::stream::Stream;

/// How long a visit lasts at most.
const LIMIT: Duration = Duration::from_secs(30);
/// Bytes of a page that are read at most.
const PAGE: usize = 2 << 20;

const AGENT: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";
const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8";

/// Requests a page in the background and reads it to its end.
pub(super) fn spawn<S: Stream + 'static>(connection: TlsConnection<S>, name: String, path: String) {
    let h2 = connection.alpn() == Some(b"h2");
    tokio::spawn(async move {
        let visit = async {
            if h2 { over_h2(connection, &name, &path).await } else { over_http1(connection, &name, &path).await }
        };
        match tokio::time::timeout(LIMIT, visit).await {
            Ok(Some(bytes)) => tracing::debug!("read {bytes} bytes of the site behind a REALITY server"),
            Ok(None) | Err(_) => tracing::debug!("the site behind a REALITY server gave no page"),
        }
    });
}

async fn over_http1<S: Stream>(connection: TlsConnection<S>, name: &str, path: &str) -> Option<usize> {
    let mut stream = connection.into_stream();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: keep-alive\r\nUpgrade-Insecure-Requests: 1\r\n\
         User-Agent: {AGENT}\r\nAccept: {ACCEPT}\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n\
         Sec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\nAccept-Language: en-US,en;q=0.9\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    let mut page = [0; 8192];
    let mut read = 0;
    while read < PAGE {
        match stream.read(&mut page).await.ok()? {
            0 => break,
            count => read += count,
        }
    }
    Some(read)
}

async fn over_h2<S: Stream + 'static>(connection: TlsConnection<S>, name: &str, path: &str) -> Option<usize> {
    // The settings of Chromium.
    let (mut sender, driver) = h2::client::Builder::new()
        .header_table_size(65536)
        .enable_push(false)
        .initial_window_size(6 << 20)
        .max_header_list_size(256 << 10)
        .initial_connection_window_size(15 << 20)
        .handshake::<_, bytes::Bytes>(connection.into_stream())
        .await
        .ok()?;
    let driver = tokio::spawn(driver);
    let request = http::Request::get(format!("https://{name}{path}"))
        .header("upgrade-insecure-requests", "1")
        .header("user-agent", AGENT)
        .header("accept", ACCEPT)
        .header("sec-fetch-site", "none")
        .header("sec-fetch-mode", "navigate")
        .header("sec-fetch-user", "?1")
        .header("sec-fetch-dest", "document")
        .header("accept-language", "en-US,en;q=0.9")
        .header("priority", "u=0, i")
        .body(())
        .ok()?;
    poll_fn(|cx| sender.poll_ready(cx)).await.ok()?;
    let (response, _) = sender.send_request(request, true).ok()?;
    let mut body = response.await.ok()?.into_body();
    let mut read = 0;
    while let Some(piece) = body.data().await {
        let length = piece.ok()?.len();
        body.flow_control().release_capacity(length).ok()?;
        read += length;
        if read >= PAGE {
            break;
        }
    }
    drop(sender);
    driver.abort();
    Some(read)
}
