//! REALITY and Vision against Xray-core (CULVERT_PEER_XRAY).
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "a test's own helpers may fail the test"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_net::chunked::ChunkedStream;
use culvert_net::dial::Dialer;
use culvert_net::outbound::{ConnectError, ConnectRequest, Outbound, Trace, vision};
use culvert_net::reality_server::RealityServer;
use culvert_net::stream::{BoxStream, Stream};
use culvert_profile::node::{Reality, Secret, Tls};
use culvert_tests::xray;
use culvert_wire::reality::ServerOptions;
use culvert_wire::vless::{Command, put_request};
use culvert_wire::{Destination, Host};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const USER: [u8; 16] = *b"culvert-test-usr";
const NAME: &str = "site.test";
const PRIVATE: [u8; 32] = [0x51; 32];

fn user_text() -> String {
    let hex: String = USER.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn public_key() -> [u8; 32] {
    ServerOptions::new(PRIVATE, Vec::new(), Vec::new(), [0; 3]).public_key().unwrap()
}

fn server(address: SocketAddr, flow: &str, security: Value) -> Value {
    let mut stream = json!({"network": "raw"});
    stream.as_object_mut().unwrap().extend(security.as_object().unwrap().clone());
    json!({
        "log": {"loglevel": "debug"},
        "inbounds": [{
            "listen": "127.0.0.1", "port": address.port(), "protocol": "vless",
            "settings": {"clients": [{"id": user_text(), "flow": flow}], "decryption": "none"},
            "streamSettings": stream,
        }],
        "outbounds": [{"protocol": "freedom", "settings": {
            "finalRules": [{"action": "allow"}],
        }}],
    })
}

fn reality_settings(site: SocketAddr) -> Value {
    json!({"security": "reality", "realitySettings": {
        "target": site.to_string(), "serverNames": [NAME],
        "privateKey": URL_SAFE_NO_PAD.encode(PRIVATE), "shortIds": ["1234"],
    }})
}

fn reality(short_id: &str) -> Tls {
    Tls {
        enabled: true,
        sni: Some(NAME.into()),
        fingerprint: Some("chrome".into()),
        reality: Some(Reality {
            public_key: URL_SAFE_NO_PAD.encode(public_key()),
            short_id: Secret::new(short_id),
            spider_x: Some("/".into()),
            mldsa65_verify: None,
        }),
        ..Tls::default()
    }
}

async fn connect(
    server: SocketAddr,
    tls: &Tls,
    target: SocketAddr,
    first: &[u8],
) -> Result<ChunkedStream<BoxStream>, ConnectError> {
    let dialer = Dialer::default();
    let mut trace = Trace::start();
    let destination = Destination::from(server);
    let socket = dialer.connect(&destination, &mut trace).await?;
    let mut header = Vec::new();
    put_request(&USER, vision::FLOW, Command::Tcp, &Destination::from(target), &mut header);
    let name = Host::parse(NAME).unwrap();
    vision::over(&dialer, Box::new(socket), &destination, &name, tls, (USER, header, first), &mut trace).await
}

/// Sends back what it gets, until the end.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) >> 3) as u8 ^ seed).collect()
}

/// Sends `data` through a stream that echoes, reads it back, and compares; ends by half-close.
async fn round_trip(stream: impl Stream + 'static, sent_before: &[u8], data: Vec<u8>) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut expected = Sha256::new();
    expected.update(sent_before);
    expected.update(&data);
    let total = sent_before.len() + data.len();
    // Both halves in one task: a stream sends what waits from its reads too.
    let writing = async {
        writer.write_all(&data).await.unwrap();
        writer.flush().await.unwrap();
    };
    let reading = async {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 65536];
        let mut got = 0;
        while got < total {
            let count = reader.read(&mut buffer).await.unwrap();
            assert!(count > 0, "ended after {got} of {total} bytes");
            hash.update(&buffer[..count]);
            got += count;
        }
        assert_eq!(got, total);
        assert!(hash.finalize() == expected.finalize());
    };
    tokio::join!(writing, reading);
    writer.shutdown().await.unwrap();
    assert_eq!(reader.read(&mut [0; 16]).await.unwrap(), 0);
}

#[tokio::test]
async fn plain_inner_traffic_through_reality_and_vision() {
    let Some(binary) = xray::binary() else { return };
    let (_site, site) = xray::openssl_server(NAME, &[]).unwrap();
    let address = xray::free_address().unwrap();
    let _xray = xray::start(&binary, &server(address, vision::FLOW, reality_settings(site)), address).unwrap();
    let target = echo().await;
    for first in [&b""[..], b"hello"] {
        let stream = connect(address, &reality("1234"), target, first).await.unwrap();
        round_trip(stream, first, bytes(1000, 1)).await;
    }
    let stream = connect(address, &reality("1234"), target, b"x").await.unwrap();
    round_trip(stream, b"x", bytes(64 << 20, 2)).await;
    let mut all = tokio::task::JoinSet::new();
    for seed in 0..200 {
        all.spawn(async move {
            let stream = connect(address, &reality("1234"), target, b"p").await.unwrap();
            round_trip(stream, b"p", bytes(100_000, seed)).await;
        });
    }
    while let Some(done) = tokio::time::timeout(Duration::from_secs(120), all.join_next()).await.unwrap() {
        done.unwrap();
    }
}

#[tokio::test]
async fn strangers_of_reality_are_told_so() {
    let Some(binary) = xray::binary() else { return };
    let (_site, site) = xray::openssl_server(NAME, &[]).unwrap();
    let address = xray::free_address().unwrap();
    let _xray = xray::start(&binary, &server(address, vision::FLOW, reality_settings(site)), address).unwrap();
    let Err(error) = connect(address, &reality("9999"), site, b"secret").await else {
        panic!("a wrong short id was accepted")
    };
    assert!(error.to_string().contains("wrong public key, short id"), "{error}");
}

/// An inner TLS connection goes outside of the outer one, both ways.
#[tokio::test]
async fn inner_tls_leaves_the_outer_one() {
    let Some(binary) = xray::binary() else { return };
    let (_site, site) = xray::openssl_server(NAME, &[]).unwrap();
    let address = xray::free_address().unwrap();
    let _xray = xray::start(&binary, &server(address, vision::FLOW, reality_settings(site)), address).unwrap();
    let files = tempfile::tempdir().unwrap();
    let data = bytes(64 << 20, 9);
    std::fs::write(files.path().join("data"), &data).unwrap();
    let (_web, web) = file_server(files.path());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let local = listener.local_addr().unwrap();
    let relay = tokio::spawn(async move {
        let (mut application, _) = listener.accept().await.unwrap();
        let mut first = vec![0; 8192];
        let count = application.read(&mut first).await.unwrap();
        let mut stream = connect(address, &reality("1234"), web, &first[..count]).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut application, &mut stream).await;
        (stream.raw_read().is_some(), stream.raw_write().is_some())
    });
    let out = files.path().join("out");
    let status = tokio::process::Command::new("curl")
        .args(["-sk", "--max-time", "120", "-o"])
        .arg(&out)
        .arg("--connect-to")
        .arg(format!("::{local}"))
        .arg("https://web.test/data")
        .env_remove("https_proxy")
        .status()
        .await
        .unwrap();
    assert!(status.success(), "{status}");
    assert!(std::fs::read(&out).unwrap() == data);
    assert_eq!(relay.await.unwrap(), (true, true), "both directions are the socket's own");
}

/// `openssl s_server` that serves the files of a folder.
fn file_server(folder: &std::path::Path) -> (xray::Process, SocketAddr) {
    let files = xray::certificate("web.test").unwrap();
    let address = xray::free_address().unwrap();
    let mut command = std::process::Command::new("openssl");
    command.current_dir(folder).args(["s_server", "-WWW", "-accept", &address.to_string()]);
    command.arg("-cert").arg(files.path().join("cert.pem")).arg("-key").arg(files.path().join("key.pem"));
    (xray::spawn(command, files, address).unwrap(), address)
}

/// Vision over ordinary TLS, whose certificate is pinned.
#[tokio::test]
async fn vision_over_plain_tls() {
    let Some(binary) = xray::binary() else { return };
    let files = xray::certificate(NAME).unwrap();
    let address = xray::free_address().unwrap();
    let settings = json!({"security": "tls", "tlsSettings": {"certificates": [{
        "certificateFile": files.path().join("cert.pem"), "keyFile": files.path().join("key.pem"),
    }]}});
    let _xray = xray::start(&binary, &server(address, vision::FLOW, settings), address).unwrap();
    let target = echo().await;
    let tls = Tls { enabled: true, sni: Some(NAME.into()), insecure: true, ..Tls::default() };
    let stream = connect(address, &tls, target, b"x").await.unwrap();
    round_trip(stream, b"x", bytes(8 << 20, 2)).await;
    let strict = Tls { insecure: false, ..tls };
    let refused = connect(address, &strict, target, b"x").await;
    assert!(matches!(refused, Err(ConnectError::Certificate { .. })), "an unknown issuer");
    drop(TcpStream::connect(address).await);
}

/// Our own server, which hides behind `site`.
async fn own_server(site: SocketAddr) -> SocketAddr {
    let options = ServerOptions::new(PRIVATE, vec![[0x12, 0x34, 0, 0, 0, 0, 0, 0]], vec![NAME.into()], [26, 3, 27]);
    let server = Arc::new(RealityServer::new(options, vec![USER], site, Dialer::default()));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.serve(socket, Arc::default()).await });
        }
    });
    address
}

#[tokio::test]
async fn our_client_and_our_server() {
    let (_site, site) = xray::openssl_server(NAME, &[]).unwrap();
    let server = own_server(site).await;
    let target = echo().await;
    let stream = connect(server, &reality("1234"), target, b"").await.unwrap();
    round_trip(stream, b"", bytes(8 << 20, 5)).await;
    let Err(error) = connect(server, &reality("99"), target, b"secret").await else {
        panic!("a wrong short id was accepted")
    };
    assert!(error.to_string().contains("wrong public key, short id"), "{error}");
}

#[tokio::test]
async fn xrays_client_and_our_server() {
    let Some(binary) = xray::binary() else { return };
    let (_site, site) = xray::openssl_server(NAME, &[]).unwrap();
    let server = own_server(site).await;
    let socks = xray::free_address().unwrap();
    let configuration = json!({
        "log": {"loglevel": "debug"},
        "inbounds": [{"listen": "127.0.0.1", "port": socks.port(), "protocol": "socks"}],
        "outbounds": [{
            "protocol": "vless",
            "settings": {"vnext": [{"address": "127.0.0.1", "port": server.port(),
                "users": [{"id": user_text(), "encryption": "none", "flow": vision::FLOW}]}]},
            "streamSettings": {"network": "raw", "security": "reality", "realitySettings": {
                "serverName": NAME, "fingerprint": "chrome", "shortId": "1234", "spiderX": "/",
                "publicKey": URL_SAFE_NO_PAD.encode(public_key()),
            }},
        }],
    });
    let _xray = xray::start(&binary, &configuration, socks).unwrap();
    let files = tempfile::tempdir().unwrap();
    let data = bytes(64 << 20, 3);
    std::fs::write(files.path().join("data"), &data).unwrap();
    let (_web, web) = file_server(files.path());
    let out = files.path().join("out");
    let status = tokio::process::Command::new("curl")
        .args(["-sk", "--max-time", "120", "-x", &format!("socks5://{socks}"), "-o"])
        .arg(&out)
        .arg(format!("https://{web}/data"))
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .status()
        .await
        .unwrap();
    assert!(status.success(), "{status}");
    assert!(std::fs::read(&out).unwrap() == data);
}

/// The outbound of a share link, as people paste it.
fn pasted(server: SocketAddr, flow: &str, short_id: &str) -> Outbound {
    let key = URL_SAFE_NO_PAD.encode(public_key());
    let link = format!(
        "vless://{}@{server}?encryption=none&type=tcp&security=reality&sni={NAME}&flow={flow}\
         &pbk={key}&sid={short_id}&fp=chrome&spx=%2F#REALITY",
        user_text()
    );
    let node = culvert_profile::parse_link(&link).unwrap();
    assert_eq!(node.unsupported, None);
    Outbound::from_node(&node).unwrap()
}

/// Bytes go both ways through the share link's outbound; UDP is refused in plain words.
async fn pasted_link_works(server: SocketAddr) {
    let target = echo().await;
    for flow in [vision::FLOW, "xtls-rprx-vision-udp443"] {
        let outbound = pasted(server, flow, "1234");
        for first in [&b""[..], b"hello"] {
            let request = ConnectRequest { destination: target.into(), first_payload: first.into() };
            let connected = outbound.connect(&Dialer::default(), request).await.unwrap();
            round_trip(connected.stream, first, bytes(1 << 20, 7)).await;
        }
        let Err(ConnectError::NotOffered(told)) = outbound.associate(&Dialer::default()).await else {
            panic!("UDP was offered");
        };
        assert!(told.contains("UDP is not carried"), "{told}");
    }
    let request = ConnectRequest { destination: target.into(), first_payload: b"secret"[..].into() };
    let Err(error) = pasted(server, vision::FLOW, "99").connect(&Dialer::default(), request).await else {
        panic!("a wrong short id was accepted")
    };
    assert!(error.to_string().contains("wrong public key, short id"), "{error}");
}

#[tokio::test]
async fn a_share_link_reaches_our_server() {
    let (_site, site) = xray::openssl_server(NAME, &[]).unwrap();
    pasted_link_works(own_server(site).await).await;
}

#[tokio::test]
async fn a_share_link_reaches_xray() {
    let Some(binary) = xray::binary() else { return };
    let (_site, site) = xray::openssl_server(NAME, &[]).unwrap();
    let address = xray::free_address().unwrap();
    let _xray = xray::start(&binary, &server(address, vision::FLOW, reality_settings(site)), address).unwrap();
    pasted_link_works(address).await;
}
