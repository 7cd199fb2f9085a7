//! VMess against v2ray, both ways round.

#![expect(clippy::unwrap_used, reason = "a test's own helpers may fail the test")]

use std::sync::Arc;
use std::time::Duration;

use culvert_net::server::{Upstream, vmess};
use culvert_tests::exercise::{Expect, exercise, outbound, refused, socks};
use culvert_tests::peer::{Peer, find, free_port, full};
use culvert_tests::target::Target;
use culvert_wire::user_id::parse_user_id;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const ID: &str = "b831381d-6324-4d53-ad4f-8cda48b30811";
const OTHER_ID: &str = "b831381d-6324-4d53-ad4f-8cda48b30812";
/// v2ray cuts the other direction a second after one has ended.
const V2RAY: Expect = Expect { half_close: false, udp: true };

fn node(port: u16, id: &str, security: &str) -> Value {
    json!({
        "name": "", "address": "127.0.0.1", "port": port, "protocol": "vmess",
        "uuid": id, "encryption": security
    })
}

fn server_config(port: u16, stream: &Value) -> String {
    json!({
        "log": { "loglevel": "warning" },
        "inbounds": [{
            "listen": "127.0.0.1", "port": port, "protocol": "vmess",
            "settings": { "clients": [{ "id": ID, "alterId": 0 }] },
            "streamSettings": stream
        }],
        "outbounds": [{ "protocol": "freedom" }]
    })
    .to_string()
}

fn client_config(socks: u16, server: u16, security: &str) -> String {
    json!({
        "log": { "loglevel": "warning" },
        "inbounds": [{
            "listen": "127.0.0.1", "port": socks, "protocol": "socks",
            "settings": { "udp": true, "ip": "127.0.0.1" }
        }],
        "outbounds": [{
            "protocol": "vmess",
            "settings": { "vnext": [{
                "address": "127.0.0.1", "port": server,
                "users": [{ "id": ID, "alterId": 0, "security": security }]
            }] }
        }]
    })
    .to_string()
}

fn securities() -> &'static [&'static str] {
    if full() {
        &["aes-128-gcm", "chacha20-poly1305", "none", "zero", "auto"]
    } else {
        &["aes-128-gcm", "chacha20-poly1305", "none", "zero"]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_v2ray() {
    let Some(v2ray) = find("v2ray", "CULVERT_V2RAY") else { return };
    let target = Target::start().await.unwrap();
    let port = free_port();
    let peer = Peer::run(&v2ray, &["-config", "{config}"], &server_config(port, &json!({})), port);
    for security in securities() {
        if let Err(error) = exercise(outbound(node(port, ID, security)), &target, V2RAY).await {
            panic!("{security}: {error}\n{}", peer.log());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_v2ray_over_websocket() {
    let Some(v2ray) = find("v2ray", "CULVERT_V2RAY") else { return };
    let target = Target::start().await.unwrap();
    let port = free_port();
    let stream = json!({ "network": "ws", "wsSettings": { "path": "/way" } });
    let peer = Peer::run(&v2ray, &["-config", "{config}"], &server_config(port, &stream), port);
    let mut node = node(port, ID, "aes-128-gcm");
    node["transport"] = json!({ "type": "ws", "path": "/way" });
    if let Err(error) = exercise(outbound(node), &target, V2RAY).await {
        panic!("{error}\n{}", peer.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v2ray_hands_nothing_on_for_a_wrong_id() {
    let Some(v2ray) = find("v2ray", "CULVERT_V2RAY") else { return };
    let target = Target::start().await.unwrap();
    let port = free_port();
    let _peer = Peer::run(&v2ray, &["-config", "{config}"], &server_config(port, &json!({})), port);
    let outbound = outbound(node(port, OTHER_ID, "aes-128-gcm"));
    let told = refused(&outbound, &target, Duration::from_secs(5)).await.unwrap();
    // v2ray may keep a stranger's connection until its own time-out; when it closes, we say why.
    if let Some(told) = told {
        assert!(told.contains("wrong user id") || told.contains("reset"), "{told}");
    }
}

async fn our_server() -> (u16, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Arc::new(vmess::Server::new(&[parse_user_id(ID).unwrap()], Upstream::direct()));
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move { server.serve(Box::new(stream)).await });
        }
    });
    (port, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_our_server() {
    let target = Target::start().await.unwrap();
    let (port, task) = our_server().await;
    for security in securities() {
        let expect = Expect { half_close: true, udp: true };
        exercise(outbound(node(port, ID, security)), &target, expect).await.unwrap();
    }
    let told = refused(&outbound(node(port, OTHER_ID, "none")), &target, Duration::from_secs(20)).await.unwrap();
    assert!(told.expect("our server closes").contains("wrong user id"));
    task.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v2ray_as_client_reaches_our_server() {
    let Some(v2ray) = find("v2ray", "CULVERT_V2RAY") else { return };
    let target = Target::start().await.unwrap();
    let (server, task) = our_server().await;
    for security in ["aes-128-gcm", "chacha20-poly1305", "none", "zero"] {
        let port = free_port();
        let peer = Peer::run(&v2ray, &["-config", "{config}"], &client_config(port, server, security), port);
        if let Err(error) = exercise(socks(port), &target, V2RAY).await {
            panic!("{security}: {error}\n{}", peer.log());
        }
    }
    task.abort();
}
