//! The browser-like TLS client against OpenSSL.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "a test's own helpers may fail the test"
)]

use std::net::SocketAddr;

use culvert_net::outbound::ConnectError;
use culvert_net::transport::browser_tls;
use culvert_profile::node::Tls;
use culvert_tests::xray;
use culvert_wire::tls::{P256, X25519};
use culvert_wire::{Destination, Host};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NAME: &str = "site.test";

fn options(fingerprint: &str) -> Tls {
    Tls { enabled: true, fingerprint: Some(fingerprint.into()), insecure: true, ..Tls::default() }
}

async fn connect(server: SocketAddr, tls: &Tls) -> Result<browser_tls::TlsConnection<TcpStream>, ConnectError> {
    let socket = TcpStream::connect(server).await.unwrap();
    browser_tls::connect(socket, &Destination::from(server), &Host::parse(NAME).unwrap(), tls, &["http/1.1"]).await
}

/// Asks for the server's status page: its length.
async fn page(connection: browser_tls::TlsConnection<TcpStream>) -> usize {
    let mut stream = connection.into_stream();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut page = Vec::new();
    stream.read_to_end(&mut page).await.unwrap();
    assert!(page.starts_with(b"HTTP/1.0 200 ok"));
    page.len()
}

#[tokio::test]
async fn every_browser_and_every_cipher() {
    for suite in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        let (_server, address) = xray::openssl_server(NAME, &["-ciphersuites", suite]).unwrap();
        for fingerprint in ["chrome", "firefox", "safari", "ios", "edge", "android", "random", "randomized"] {
            let connection = connect(address, &options(fingerprint)).await.unwrap();
            assert_eq!(connection.established().group, X25519, "{fingerprint} {suite}");
            assert!(page(connection).await > 100);
        }
    }
}

#[tokio::test]
async fn a_retry_request_is_answered() {
    for (groups, group) in [("P-256", P256), ("P-384", 0x18)] {
        let (_server, address) = xray::openssl_server(NAME, &["-groups", groups]).unwrap();
        for fingerprint in ["chrome", "firefox", "safari"] {
            let connection = connect(address, &options(fingerprint)).await.unwrap();
            assert_eq!(connection.established().group, group, "{fingerprint} {groups}");
            page(connection).await;
        }
    }
}

#[tokio::test]
async fn sessions_are_resumed() {
    let files = xray::certificate(NAME).unwrap();
    let pin = std::process::Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(files.path().join("cert.pem"))
        .output()
        .unwrap();
    let pin = String::from_utf8(pin.stdout).unwrap();
    let pin = pin.trim().split('=').nth(1).unwrap().replace(':', "").to_lowercase();
    let address = xray::free_address().unwrap();
    let mut command = std::process::Command::new("openssl");
    command.args(["s_server", "-www", "-accept", &address.to_string()]);
    command.arg("-cert").arg(files.path().join("cert.pem")).arg("-key").arg(files.path().join("key.pem"));
    let _server = xray::spawn(command, files, address).unwrap();
    // Options that skip checks never resume; the pinned connection is checked each time.
    let pinned = Tls { insecure: false, pin_sha256: Some(pin), ..options("chrome") };
    for _ in 0..2 {
        let connection = connect(address, &pinned).await.unwrap();
        assert!(!connection.established().resumed);
        page(connection).await;
    }
    let wrong = Tls { pin_sha256: Some("00".repeat(32)), ..pinned };
    assert!(matches!(connect(address, &wrong).await, Err(ConnectError::Certificate { .. })));
    let store: std::sync::Arc<dyn culvert_wire::tls::SessionStore> =
        browser_tls::Sessions::shared(&Destination::from(address));
    for round in 0..4 {
        let config = culvert_wire::tls::ClientConfig {
            browser: culvert_wire::tls::Browser::Chrome,
            server_name: Some(NAME.into()),
            alpn: None,
            sessions: Some(store.clone()),
        };
        let judge = browser_tls::Judge::new(&options("chrome"), &Host::parse(NAME).unwrap()).unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        let connection = browser_tls::handshake(socket, config, Box::new(judge)).await.unwrap();
        assert_eq!(connection.established().resumed, round > 0, "round {round}");
        page(connection).await;
    }
}

#[tokio::test]
async fn an_old_server_and_an_unknown_authority_are_named() {
    let (_server, address) = xray::openssl_server(NAME, &["-tls1_2"]).unwrap();
    let Err(error) = connect(address, &options("chrome")).await else { panic!("TLS 1.2 was accepted") };
    assert!(error.to_string().contains("TLS 1.2 or older"), "{error}");
    let (_server, address) = xray::openssl_server(NAME, &[]).unwrap();
    let strict = Tls { insecure: false, ..options("chrome") };
    assert!(matches!(connect(address, &strict).await, Err(ConnectError::Certificate { .. })));
}
