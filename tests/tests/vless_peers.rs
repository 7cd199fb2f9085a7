//! VLESS (without an encryption of its own) against v2ray, both ways round.

#![expect(clippy::unwrap_used, reason = "a test's own helpers may fail the test")]

use std::sync::Arc;
use std::time::Duration;

use culvert_net::server::{Upstream, vless};
use culvert_tests::exercise::{Expect, exercise, outbound, refused, socks};
use culvert_tests::peer::{Peer, find, free_port};
use culvert_tests::target::Target;
use culvert_wire::user_id::parse_user_id;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const ID: &str = "b831381d-6324-4d53-ad4f-8cda48b30811";
const OTHER_ID: &str = "b831381d-6324-4d53-ad4f-8cda48b30812";
/// v2ray cuts the other direction a second after one has ended.
const V2RAY: Expect = Expect { half_close: false, udp: true };

fn node(port: u16, id: &str) -> Value {
    json!({
        "name": "", "address": "127.0.0.1", "port": port, "protocol": "vless",
        "uuid": id, "encryption": "none"
    })
}

fn server_config(port: u16) -> String {
    json!({
        "log": { "loglevel": "warning" },
        "inbounds": [{
            "listen": "127.0.0.1", "port": port, "protocol": "vless",
            "settings": { "clients": [{ "id": ID }], "decryption": "none" }
        }],
        "outbounds": [{ "protocol": "freedom" }]
    })
    .to_string()
}

fn client_config(socks: u16, server: u16) -> String {
    json!({
        "log": { "loglevel": "warning" },
        "inbounds": [{
            "listen": "127.0.0.1", "port": socks, "protocol": "socks",
            "settings": { "udp": true, "ip": "127.0.0.1" }
        }],
        "outbounds": [{
            "protocol": "vless",
            "settings": { "vnext": [{
                "address": "127.0.0.1", "port": server, "users": [{ "id": ID, "encryption": "none" }]
            }] }
        }]
    })
    .to_string()
}

async fn our_server() -> (u16, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Arc::new(vless::Server::new(&[parse_user_id(ID).unwrap()], Upstream::direct()));
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move { server.serve(Box::new(stream)).await });
        }
    });
    (port, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_v2ray() {
    let Some(v2ray) = find("v2ray", "CULVERT_V2RAY") else { return };
    let target = Target::start().await.unwrap();
    let port = free_port();
    let peer = Peer::run(&v2ray, &["-config", "{config}"], &server_config(port), port);
    if let Err(error) = exercise(outbound(node(port, ID)), &target, V2RAY).await {
        panic!("{error}\n{}", peer.log());
    }
    refused(&outbound(node(port, OTHER_ID)), &target, Duration::from_secs(30)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_our_server() {
    let target = Target::start().await.unwrap();
    let (port, task) = our_server().await;
    let expect = Expect { half_close: true, udp: true };
    exercise(outbound(node(port, ID)), &target, expect).await.unwrap();
    let told = refused(&outbound(node(port, OTHER_ID)), &target, Duration::from_secs(20)).await.unwrap();
    assert!(told.expect("our server closes").contains("wrong user id"));
    task.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v2ray_as_client_reaches_our_server() {
    let Some(v2ray) = find("v2ray", "CULVERT_V2RAY") else { return };
    let target = Target::start().await.unwrap();
    let (server, task) = our_server().await;
    let port = free_port();
    let peer = Peer::run(&v2ray, &["-config", "{config}"], &client_config(port, server), port);
    if let Err(error) = exercise(socks(port), &target, V2RAY).await {
        panic!("{error}\n{}", peer.log());
    }
    task.abort();
}
