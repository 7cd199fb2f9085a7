//! Trojan against trojan itself and v2ray, both ways round.

#![expect(clippy::unwrap_used, reason = "a test's own helpers may fail the test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use culvert_net::server::{Upstream, trojan};
use culvert_net::transport::tls;
use culvert_tests::exercise::{Expect, exercise, outbound, refused, socks};
use culvert_tests::peer::{Peer, find, free_port};
use culvert_tests::target::Target;
use culvert_tests::xray::certificate;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const NAME: &str = "site.test";
const PASSWORD: &str = "pass: 密码";
/// trojan ends both directions with one of them; v2ray cuts the other a second later.
const PEER: Expect = Expect { half_close: false, udp: true };

fn node(port: u16, password: &str) -> Value {
    json!({
        "name": "", "address": "127.0.0.1", "port": port, "protocol": "trojan", "password": password,
        "tls": { "enabled": true, "sni": NAME, "insecure": true }
    })
}

/// `strangers` is the port that trojan hands everyone else to.
fn trojan_server(port: u16, strangers: u16, files: &Path) -> String {
    json!({
        "run_type": "server", "local_addr": "127.0.0.1", "local_port": port,
        "remote_addr": "127.0.0.1", "remote_port": strangers, "password": [PASSWORD], "log_level": 1,
        "ssl": { "cert": files.join("cert.pem"), "key": files.join("key.pem"), "alpn": ["http/1.1"] },
        "tcp": { "no_delay": true }
    })
    .to_string()
}

fn trojan_client(socks: u16, server: u16) -> String {
    json!({
        "run_type": "client", "local_addr": "127.0.0.1", "local_port": socks,
        "remote_addr": "127.0.0.1", "remote_port": server, "password": [PASSWORD], "log_level": 1,
        "ssl": { "verify": false, "verify_hostname": false, "cert": "", "sni": NAME, "alpn": ["http/1.1"] },
        "tcp": { "no_delay": true }
    })
    .to_string()
}

fn v2ray_server(port: u16, files: &Path) -> String {
    json!({
        "log": { "loglevel": "warning" },
        "inbounds": [{
            "listen": "127.0.0.1", "port": port, "protocol": "trojan",
            "settings": { "clients": [{ "password": PASSWORD }] },
            "streamSettings": { "network": "tcp", "security": "tls", "tlsSettings": { "certificates": [{
                "certificateFile": files.join("cert.pem"), "keyFile": files.join("key.pem")
            }] } }
        }],
        "outbounds": [{ "protocol": "freedom" }]
    })
    .to_string()
}

fn v2ray_client(socks: u16, server: u16) -> String {
    json!({
        "log": { "loglevel": "warning" },
        "inbounds": [{
            "listen": "127.0.0.1", "port": socks, "protocol": "socks",
            "settings": { "udp": true, "ip": "127.0.0.1" }
        }],
        "outbounds": [{
            "protocol": "trojan",
            "settings": { "servers": [{ "address": "127.0.0.1", "port": server, "password": PASSWORD }] },
            "streamSettings": { "network": "tcp", "security": "tls", "tlsSettings": {
                "allowInsecure": true, "serverName": NAME
            } }
        }]
    })
    .to_string()
}

async fn our_server() -> (u16, tokio::task::JoinHandle<()>) {
    let files = certificate(NAME).unwrap();
    let chain = vec![CertificateDer::from_pem_file(files.path().join("cert.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(files.path().join("key.pem")).unwrap();
    let acceptor = tls::Acceptor::new(chain, key, &["http/1.1"]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Arc::new(trojan::Server::new(&[PASSWORD], Upstream::direct()));
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (server, acceptor) = (server.clone(), acceptor.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(Box::new(stream)).await {
                    let _ = server.serve(stream).await;
                }
            });
        }
    });
    (port, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_trojan() {
    let Some(trojan) = find("trojan", "CULVERT_TROJAN") else { return };
    let target = Target::start().await.unwrap();
    let files = certificate(NAME).unwrap();
    let port = free_port();
    let peer = Peer::run(&trojan, &["-c", "{config}"], &trojan_server(port, free_port(), files.path()), port);
    if let Err(error) = exercise(outbound(node(port, PASSWORD)), &target, PEER).await {
        panic!("{error}\n{}", peer.log());
    }
    refused(&outbound(node(port, "another")), &target, Duration::from_secs(30)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trojan_as_client_reaches_our_server() {
    let Some(trojan) = find("trojan", "CULVERT_TROJAN") else { return };
    let target = Target::start().await.unwrap();
    let (server, task) = our_server().await;
    let port = free_port();
    let peer = Peer::run(&trojan, &["-c", "{config}"], &trojan_client(port, server), port);
    if let Err(error) = exercise(socks(port), &target, PEER).await {
        panic!("{error}\n{}", peer.log());
    }
    task.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_v2ray() {
    let Some(v2ray) = find("v2ray", "CULVERT_V2RAY") else { return };
    let target = Target::start().await.unwrap();
    let files = certificate(NAME).unwrap();
    let port = free_port();
    let peer = Peer::run(&v2ray, &["-config", "{config}"], &v2ray_server(port, files.path()), port);
    if let Err(error) = exercise(outbound(node(port, PASSWORD)), &target, PEER).await {
        panic!("{error}\n{}", peer.log());
    }
    refused(&outbound(node(port, "another")), &target, Duration::from_secs(30)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v2ray_as_client_reaches_our_server() {
    let Some(v2ray) = find("v2ray", "CULVERT_V2RAY") else { return };
    let target = Target::start().await.unwrap();
    let (server, task) = our_server().await;
    let port = free_port();
    let peer = Peer::run(&v2ray, &["-config", "{config}"], &v2ray_client(port, server), port);
    if let Err(error) = exercise(socks(port), &target, PEER).await {
        panic!("{error}\n{}", peer.log());
    }
    task.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_our_server() {
    let target = Target::start().await.unwrap();
    let (port, task) = our_server().await;
    exercise(outbound(node(port, PASSWORD)), &target, Expect { half_close: true, udp: true }).await.unwrap();
    refused(&outbound(node(port, "another")), &target, Duration::from_secs(20)).await.unwrap();
    task.abort();
}
