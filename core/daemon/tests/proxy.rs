//! The whole way: a demo server, a local proxy in front of it, and curl as its user.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by them, and says why it is skipped")]

mod program;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::time::Duration;

use program::{Program, core, run};
use serde_json::Value;

/// A web server that answers each request with `body`, as often as asked.
fn origin(body: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut head = Vec::new();
                let mut byte = [0; 1];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
                    head.push(byte[0]);
                }
                let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(body));
            });
        }
    });
    address
}

fn curl(words: &[&str]) -> Option<program::Done> {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: curl is missing");
        assert!(std::env::var_os("CULVERT_REQUIRE_PEERS").is_none(), "curl is missing");
        return None;
    }
    Some(run(Command::new("curl").args(["-sS", "--max-time", "20"]).args(words), ""))
}

#[test]
fn curl_reaches_a_page_through_every_demo_node() {
    static BODY: &[u8] = &[b'x'; 300_000];
    let url = format!("http://{}/", origin(BODY));
    let mut demo = Program::start(core().args(["demo", "--json"]));
    let links: Value = serde_json::from_str(&demo.line()).unwrap();
    let links = links["links"].as_array().unwrap();
    assert!(links.len() >= 8, "{links:?}");
    for link in links {
        let link = link.as_str().unwrap();
        let mut proxy = Program::start(core().args(["run", link, "--json", "--global", "--mixed", "127.0.0.1:0"]));
        let told: Value = serde_json::from_str(&proxy.line()).unwrap();
        let mixed = told["mixed"].as_str().unwrap();
        for way in ["socks5h", "socks4a", "http"] {
            let Some(done) = curl(&["-x", &format!("{way}://{mixed}"), &url]) else { return };
            assert_eq!((done.status, done.stdout.len()), (0, BODY.len()), "{way} {told}: {}", done.stderr);
        }
        assert_eq!(proxy.end().status, 0);
    }
    assert_eq!(demo.end().status, 0);
}

#[test]
fn datagrams_go_through_and_come_back() {
    let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = echo.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((count, from)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..count], from);
        }
    });
    let mut demo = Program::start(core().args(["demo", "--json"]));
    let links: Value = serde_json::from_str(&demo.line()).unwrap();
    // Vision carries no UDP, and the demo's Shadowsocks servers none either.
    let is_wanted = |link: &&str| {
        let scheme = link.split("://").next().unwrap_or_default();
        matches!(scheme, "vmess" | "vless" | "trojan") && !link.contains("flow=")
    };
    for link in links["links"].as_array().unwrap().iter().map(|link| link.as_str().unwrap()).filter(is_wanted) {
        let mut proxy = Program::start(core().args(["run", link, "--json", "--global", "--mixed", "127.0.0.1:0"]));
        let told: Value = serde_json::from_str(&proxy.line()).unwrap();
        let mixed: SocketAddr = told["mixed"].as_str().unwrap().parse().unwrap();

        let mut control = std::net::TcpStream::connect(mixed).unwrap();
        control.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        control.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut answer = [0; 12];
        control.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..4], [5, 0, 5, 0], "{answer:?}");
        let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([answer[10], answer[11]])));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut packet = vec![0, 0, 0, 1, 127, 0, 0, 1];
        packet.extend_from_slice(&target.port().to_be_bytes());
        packet.extend_from_slice(&[7; 1_400]);
        socket.send_to(&packet, relay).unwrap();
        let mut received = [0; 2_048];
        let (count, _) = socket.recv_from(&mut received).unwrap_or_else(|error| panic!("{told}: {error}"));
        assert_eq!(received[..count], packet[..], "{told}");
        assert_eq!(proxy.end().status, 0);
    }
}

#[test]
fn a_wrong_password_is_told_within_the_time_and_nothing_is_called_connected() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("http://{}/", origin(b"page"));
    let mut demo = Program::start(core().args(["demo", "--json"]));
    let links: Value = serde_json::from_str(&demo.line()).unwrap();
    let right = links["links"].as_array().unwrap().iter().map(|link| link.as_str().unwrap());
    let right = right.filter(|link| link.starts_with("vless://")).min_by_key(|link| link.len()).unwrap();
    let user = right.split("://").nth(1).unwrap().split('@').next().unwrap();
    let wrong = right.replace(user, "00000000-0000-4000-8000-000000000000");

    let mut service =
        Program::start(core().env("CULVERT_HOME", home.path()).args(["serve", "--json", "--no-system-proxy"]));
    service.line();
    let ctl = |words: &[&str]| {
        let done = run(core().env("CULVERT_HOME", home.path()).args(["--json", "ctl"]).args(words), "");
        assert_eq!(done.status, 0, "{words:?}: {}", done.stderr);
        serde_json::from_str::<Value>(&done.stdout).unwrap()
    };
    let text = serde_json::json!({ "text": format!("{right}\n{wrong}") }).to_string();
    assert_eq!(ctl(&["import.commit", &text])["nodes"], serde_json::json!([1, 2]));
    let patch = serde_json::json!({ "test_url": url, "random_port": true, "mode": "global" }).to_string();
    ctl(&["settings.set", &patch]);

    let status = ctl(&["connection.connect", "{\"node\": 2}"]);
    assert_eq!(status["phase"], "failed", "{status}");
    assert!(status["stages"]["node"]["problem"]["message"].is_string(), "{status}");
    let status = ctl(&["connection.connect", "{\"node\": 1}"]);
    assert_eq!(status["phase"], "connected", "{status}");
    let mixed = format!("http://127.0.0.1:{}", status["mixed"]["port"]);
    if let Some(done) = curl(&["-x", &mixed, &url]) {
        assert_eq!((done.status, done.stdout.as_str()), (0, "page"), "{}", done.stderr);
        let list = ctl(&["connections.list", "{\"ended\": true}"]);
        assert_eq!(list["rows"][0]["node"]["id"], 1, "{list}");
        assert_eq!(list["rows"][0]["rule"], "global");
        let id = list["rows"][0]["id"].as_u64().unwrap();
        let trace = ctl(&["connections.trace", &format!("{{\"id\": {id}}}")]);
        assert_eq!(trace["phases"][0]["phase"], "dial", "{trace}");
    }
    assert_eq!(ctl(&["connection.disconnect"])["phase"], "off");
    assert_eq!(service.end().status, 0);
}
