//! curl as a user of the mixed port, in every way that it can speak to a proxy.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "a test's own helpers may fail the test"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use culvert_net::datagram::BoxDatagramFlow;
use culvert_net::dial::Dialer;
use culvert_net::inbound::flow::{Client, Dispatch, Dispatching, Flow};
use culvert_net::inbound::mixed::{Login, Mixed, Options};
use culvert_net::inbound::shards::Shards;
use culvert_net::outbound::{ConnectRequest, Outbound};
use culvert_net::relay::{Counters, Limits, relay};

struct Straight;

impl Dispatch for Straight {
    fn dispatch_stream(&self, flow: Flow, client: Client) -> Dispatching {
        Box::pin(async move {
            let request = ConnectRequest { destination: flow.destination, first_payload: Default::default() };
            match Outbound::Direct.connect(&Dialer::default(), request).await {
                Ok(mut far) => {
                    let Ok(mut client) = client.accept().await else { return };
                    relay(&mut client, &mut far.stream, &Counters::default(), Limits::default()).await;
                }
                Err(error) => {
                    let _ = client.refuse(&error).await;
                }
            }
        })
    }

    fn dispatch_datagrams(&self, _: Flow, _: BoxDatagramFlow) -> Dispatching {
        Box::pin(async {})
    }
}

/// A server that answers each request with its body (or its path, when it has none).
fn origin(connections: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            connections.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let mut write = stream.try_clone().unwrap();
                let mut read = BufReader::new(stream);
                loop {
                    let (mut first, mut length, mut close) = (String::new(), 0, false);
                    loop {
                        let mut line = String::new();
                        if read.read_line(&mut line).unwrap_or(0) == 0 {
                            return;
                        }
                        let line = line.trim_end().to_ascii_lowercase();
                        if line.is_empty() {
                            break;
                        }
                        if first.is_empty() {
                            first = line.clone();
                        }
                        if let Some(value) = line.strip_prefix("content-length: ") {
                            length = value.parse().unwrap();
                        }
                        close |= line == "connection: close";
                        if line == "expect: 100-continue" {
                            write.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
                        }
                    }
                    let mut body = vec![0; length];
                    read.read_exact(&mut body).unwrap();
                    if body.is_empty() {
                        body = first.split(' ').nth(1).unwrap().as_bytes().to_vec();
                    }
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    if write.write_all(head.as_bytes()).and_then(|()| write.write_all(&body)).is_err() || close {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn curl(arguments: &[&str]) -> Option<(bool, Vec<u8>)> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "--noproxy", ""]).args(arguments);
    match command.output() {
        Ok(output) => Some((output.status.success(), output.stdout)),
        Err(error) => {
            assert!(std::env::var_os("CULVERT_REQUIRE_PEERS").is_none(), "curl: {error}");
            println!("skipped: curl can't be run: {error}");
            None
        }
    }
}

fn start(login: bool, shards: &Shards) -> Mixed {
    let login = login.then(|| Login { user: "user".into(), password: "pass word".into() });
    Mixed::start(Options { port: 0, login, ..Options::default() }, shards, Arc::new(Straight)).unwrap()
}

#[test]
fn curl_reaches_the_origin_by_every_kind_of_proxy() {
    let shards = Shards::start(2).unwrap();
    let mixed = start(false, &shards);
    let origin = origin(Arc::default());
    for scheme in ["http", "socks4", "socks4a", "socks5", "socks5h"] {
        for host in ["127.0.0.1", "localhost"] {
            let proxy = format!("{scheme}://{}", mixed.address());
            let url = format!("http://{host}:{}/path", origin.port());
            let mut arguments = vec!["-4", "-x", &proxy, &url];
            for tunnel in [false, true] {
                if tunnel {
                    arguments.push("-p");
                }
                let Some((success, body)) = curl(&arguments) else { return };
                assert!(success && body == b"/path", "{scheme} {host} {tunnel}");
            }
        }
    }
}

#[test]
fn curl_uploads_and_reuses_its_connection() {
    let shards = Shards::start(1).unwrap();
    let mixed = start(false, &shards);
    let origin = origin(Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    let body: Vec<u8> = (0..8_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&file, &body).unwrap();
    let data = format!("@{}", file.display());
    let url = format!("http://{origin}/upload");
    for scheme in ["http", "socks5h"] {
        let proxy = format!("{scheme}://{}", mixed.address());
        let Some((success, back)) = curl(&["-x", &proxy, "--data-binary", &data, &url]) else { return };
        assert!(success && back == body, "{scheme}: {} bytes came back", back.len());
    }
    let proxy = format!("http://{}", mixed.address());
    let one = format!("http://{origin}/one");
    let two = format!("http://localhost:{}/two", origin.port());
    let format = "%{num_connects}";
    let Some((success, out)) = curl(&["-x", &proxy, "-w", format, &one, &two, &one]) else { return };
    assert!(success);
    assert_eq!(String::from_utf8_lossy(&out), "/one1/two0/one0", "one connection serves all three");
}

#[test]
fn curl_logs_in() {
    let shards = Shards::start(1).unwrap();
    let mixed = start(true, &shards);
    let origin = origin(Arc::default());
    let url = format!("http://{origin}/secret");
    for scheme in ["http", "socks5", "socks5h"] {
        let proxy = format!("{scheme}://{}", mixed.address());
        for (login, works) in [("user:pass word", true), ("user:wrong", false)] {
            for any in [false, true] {
                let mut arguments = vec!["-f", "-x", &proxy, "-U", login, &url];
                if any && scheme == "http" {
                    arguments.push("--proxy-anyauth");
                }
                let Some((success, body)) = curl(&arguments) else { return };
                assert_eq!((success, body == b"/secret"), (works, works), "{scheme} {login} {any}");
            }
        }
    }
}
