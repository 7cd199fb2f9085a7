//! Shadowsocks against shadowsocks-libev and shadowsocks-rust, both ways round.

#![expect(clippy::unwrap_used, reason = "a test's own helpers may fail the test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use culvert_net::server::{Upstream, shadowsocks};
use culvert_tests::exercise::{Expect, exercise, outbound, refused, socks};
use culvert_tests::peer::{Peer, find, free_port};
use culvert_tests::target::Target;
use culvert_wire::shadowsocks::Method;
use serde_json::{Value, json};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

const KEEPS: Expect = Expect { half_close: true, udp: true };
/// shadowsocks-libev 3.3.5 closes both directions when one has ended.
const LIBEV: Expect = Expect { half_close: false, udp: true };
const AEAD: [Method; 3] = [Method::Aes128Gcm, Method::Aes256Gcm, Method::ChaCha20IetfPoly1305];

fn password(method: Method, user: u8) -> String {
    match (method.is_2022(), method.key_length(), user) {
        (false, _, 0) => "a password".to_owned(),
        (false, _, _) => "another password".to_owned(),
        (true, 16, 0) => "AAECAwQFBgcICQoLDA0ODw==".to_owned(),
        (true, 16, _) => "EBESExQVFhcYGRobHB0eHw==".to_owned(),
        (true, _, 0) => "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned(),
        (true, _, _) => "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=".to_owned(),
    }
}

fn node(port: u16, method: Method, password: &str) -> Value {
    json!({
        "name": "", "address": "127.0.0.1", "port": port, "protocol": "shadowsocks",
        "method": method.name(), "password": password
    })
}

fn config(server: u16, local: Option<u16>, method: Method, password: &str, users: &[&str]) -> String {
    let mut config = json!({
        "server": "127.0.0.1", "server_port": server, "method": method.name(), "password": password,
        "mode": "tcp_and_udp", "timeout": 60
    });
    if let Some(local) = local {
        config["local_address"] = "127.0.0.1".into();
        config["local_port"] = local.into();
    }
    if users.is_empty() {
        return config.to_string();
    }
    // shadowsocks-rust knows users only in its list of servers.
    let named = |(place, key): (usize, &&str)| json!({ "name": format!("user{place}"), "password": key });
    config["users"] = users.iter().enumerate().map(named).collect();
    json!({ "servers": [config] }).to_string()
}

struct Ours {
    port: u16,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn our_server(method: Method, password: &str, users: &[&str]) -> Ours {
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let socket = Arc::new(UdpSocket::bind(("127.0.0.1", port)).await.unwrap());
    let server = Arc::new(shadowsocks::Server::new(method, password, users, Upstream::direct()).unwrap());
    let packets = server.clone();
    let udp = tokio::spawn(async move {
        let _ = packets.serve_packets(socket).await;
    });
    let tcp = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move { server.serve(Box::new(stream)).await });
        }
    });
    Ours { port, tasks: [tcp, udp] }
}

async fn as_server(program: &Path, arguments: &[&str], methods: &[Method], expect: Expect) {
    let target = Target::start().await.unwrap();
    for &method in methods {
        let port = free_port();
        let config = config(port, None, method, &password(method, 0), &[]);
        let peer = Peer::run(program, arguments, &config, port);
        if let Err(error) = exercise(outbound(node(port, method, &password(method, 0))), &target, expect).await {
            panic!("{}: {error}\n{}", method.name(), peer.log());
        }
        // Servers of this kind keep a stranger's connection open and say nothing.
        let wrong = outbound(node(port, method, &password(method, 1)));
        refused(&wrong, &target, Duration::from_secs(1)).await.unwrap();
    }
}

async fn as_client(program: &Path, arguments: &[&str], methods: &[Method], expect: Expect) {
    let target = Target::start().await.unwrap();
    for &method in methods {
        let ours = our_server(method, &password(method, 0), &[]).await;
        let local = free_port();
        let config = config(ours.port, Some(local), method, &password(method, 0), &[]);
        let peer = Peer::run(program, arguments, &config, local);
        if let Err(error) = exercise(socks(local), &target, expect).await {
            panic!("{}: {error}\n{}", method.name(), peer.log());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_our_server() {
    let target = Target::start().await.unwrap();
    for method in Method::ALL {
        let ours = our_server(method, &password(method, 0), &[]).await;
        let client = outbound(node(ours.port, method, &password(method, 0)));
        if let Err(error) = exercise(client, &target, KEEPS).await {
            panic!("{}: {error}", method.name());
        }
        let wrong = outbound(node(ours.port, method, &password(method, 1)));
        let told = refused(&wrong, &target, Duration::from_secs(20)).await.unwrap();
        assert!(told.expect("our server closes").contains("wrong password"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_libev() {
    let Some(program) = find("ss-server", "CULVERT_SS_SERVER") else { return };
    as_server(&program, &["-c", "{config}"], &AEAD, LIBEV).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libev_as_client_reaches_our_server() {
    let Some(program) = find("ss-local", "CULVERT_SS_LOCAL") else { return };
    as_client(&program, &["-c", "{config}"], &AEAD, LIBEV).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reaches_shadowsocks_rust() {
    let Some(program) = find("ssserver", "CULVERT_SSSERVER") else { return };
    as_server(&program, &["-c", "{config}"], &Method::ALL, KEEPS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadowsocks_rust_as_client_reaches_our_server() {
    let Some(program) = find("sslocal", "CULVERT_SSLOCAL") else { return };
    as_client(&program, &["-c", "{config}"], &Method::ALL, KEEPS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_headers_work_both_ways_with_shadowsocks_rust() {
    let (Some(server), Some(local)) = (find("ssserver", "CULVERT_SSSERVER"), find("sslocal", "CULVERT_SSLOCAL")) else {
        return;
    };
    let target = Target::start().await.unwrap();
    for method in [Method::Blake3Aes128Gcm, Method::Blake3Aes256Gcm] {
        let (outer, user) = (password(method, 0), password(method, 1));
        let both = format!("{outer}:{user}");
        let port = free_port();
        let peer = Peer::run(&server, &["-c", "{config}"], &config(port, None, method, &outer, &[&user]), port);
        if let Err(error) = exercise(outbound(node(port, method, &both)), &target, KEEPS).await {
            panic!("{}, their server: {error}\n{}", method.name(), peer.log());
        }
        let ours = our_server(method, &outer, &[&user]).await;
        let port = free_port();
        let peer = Peer::run(&local, &["-c", "{config}"], &config(ours.port, Some(port), method, &both, &[]), port);
        if let Err(error) = exercise(socks(port), &target, KEEPS).await {
            panic!("{}, their client: {error}\n{}", method.name(), peer.log());
        }
    }
}
