use super::*;
use crate::datagram::BoxDatagramFlow;
use crate::dial::Dialer;
use crate::inbound::flow::{Client, Dispatching};
use crate::outbound::{ConnectRequest, Outbound};
use crate::relay::{Counters, Limits, relay, relay_datagrams};
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

/// Sends everything straight out, and remembers where it was to go.
#[derive(Clone, Default)]
struct Straight {
    seen: Arc<Mutex<Vec<String>>>,
}

impl Dispatch for Straight {
    fn dispatch_stream(&self, flow: Flow, client: Client) -> Dispatching {
        self.seen.lock().unwrap().push(flow.destination.to_string());
        Box::pin(async move {
            let request = ConnectRequest { destination: flow.destination, first_payload: bytes::Bytes::new() };
            match Outbound::Direct.connect(&Dialer::default(), request).await {
                Ok(mut connected) => {
                    let mut client = client.accept().await.unwrap();
                    relay(&mut client, &mut connected.stream, &Counters::default(), Limits::default()).await;
                }
                Err(error) => {
                    let _ = client.refuse(&error).await;
                }
            }
        })
    }

    fn dispatch_datagrams(&self, _flow: Flow, mut client: BoxDatagramFlow) -> Dispatching {
        Box::pin(async move {
            let mut far = Outbound::Direct.associate(&Dialer::default()).await.unwrap();
            relay_datagrams(&mut *client, &mut *far.flow, &Counters::default(), Duration::from_secs(60)).await;
        })
    }
}

struct Fixture {
    mixed: Mixed,
    dispatch: Straight,
    _shards: Shards,
}

impl Fixture {
    fn start(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options { port: 0, ..Options::default() };
        change(&mut options);
        let shards = Shards::start(2).unwrap();
        let dispatch = Straight::default();
        let mixed = Mixed::start(options, &shards, Arc::new(dispatch.clone())).unwrap();
        Self { mixed, dispatch, _shards: shards }
    }

    fn with_login() -> Self {
        Self::start(|o| o.login = Some(Login { user: "u".into(), password: "p".into() }))
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.mixed.address()).await.unwrap()
    }

    /// Sends `request` in pieces of `step` bytes, then reads to the end (or for `wanted` bytes).
    async fn talk(&self, request: &[u8], step: usize, wanted: usize) -> Vec<u8> {
        let mut stream = self.connect().await;
        stream.set_nodelay(true).unwrap();
        let (mut read, mut write) = stream.split();
        let sending = async {
            for piece in request.chunks(step) {
                if write.write_all(piece).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        let mut answer = Vec::new();
        let reading = async { while answer.len() < wanted && read.read_buf(&mut answer).await.unwrap_or(0) > 0 {} };
        let both = async { tokio::join!(sending, reading) };
        tokio::time::timeout(Duration::from_secs(10), both).await.unwrap_or_else(|_| panic!("hangs on {request:?}"));
        answer
    }
}

/// Answers every connection with what it gets.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    address
}

fn v5_address(target: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::new();
    culvert_wire::socks::Address::put(&target.into(), &mut bytes);
    bytes
}

fn v5(methods: &[u8], login: &[u8], command: u8, address: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[5, methods.len() as u8], methods, login, &[5, command, 0], address, payload].concat()
}

const OK_V5: [u8; 10] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

#[tokio::test]
async fn socks5_in_pieces_and_all_at_once() {
    let (fixture, target) = (Fixture::start(|_| ()), echo().await);
    let expected = [&[5, 0], &OK_V5[..], b"hello"].concat();
    for step in [1, 3, 1000] {
        let request = v5(&[0], &[], 1, &v5_address(target), b"hello");
        assert_eq!(fixture.talk(&request, step, expected.len()).await, expected, "step {step}");
    }
    // By name, and a name that is an address.
    for name in ["localhost", "127.0.0.1"] {
        let address = [&[3, name.len() as u8], name.as_bytes(), &target.port().to_be_bytes()].concat();
        let request = v5(&[1, 0], &[], 1, &address, b"hello");
        assert_eq!(fixture.talk(&request, 1000, expected.len()).await, expected, "{name}");
    }
    let seen = fixture.dispatch.seen.lock().unwrap();
    assert_eq!(seen[3], format!("localhost:{}", target.port()));
    assert_eq!(seen[4], target.to_string());
}

#[expect(clippy::type_complexity, reason = "a table of cases")]
#[tokio::test]
async fn socks5_methods_and_logins() {
    let (open, closed, target) = (Fixture::start(|_| ()), Fixture::with_login(), echo().await);
    let address = v5_address(target);
    let login = b"\x01\x01u\x01p";
    let ok = |first: &[u8]| [first, &OK_V5[..], b"x"].concat();
    let cases: [(&Fixture, &[u8], &[u8], Vec<u8>); 9] = [
        (&open, &[0], b"", ok(&[5, 0])),
        (&open, &[2], login, ok(&[5, 2, 1, 0])),
        (&open, &[2, 0], b"", ok(&[5, 0])),
        (&open, &[1], b"", vec![5, 0xff]),
        (&open, &[], b"", vec![5, 0xff]),
        (&closed, &[0], b"", vec![5, 0xff]),
        (&closed, &[0, 2], login, ok(&[5, 2, 1, 0])),
        (&closed, &[2], b"\x01\x01u\x01q", vec![5, 2, 1, 1]),
        (&closed, &[2], b"\x01\x00\x00", vec![5, 2, 1, 1]),
    ];
    for (fixture, methods, login, expected) in cases {
        let request = v5(methods, login, 1, &address, b"x");
        let wanted = if expected.len() > 5 { expected.len() } else { 100 };
        assert_eq!(fixture.talk(&request, 1000, wanted).await, expected, "{methods:?} {login:?}");
    }
}

#[tokio::test]
async fn socks5_refusals_have_their_codes() {
    let fixture = Fixture::start(|_| ());
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let own = fixture.mixed.address();
    let long = [&[3, 255], &[b'a'; 255][..], &[0, 80]].concat();
    for (command, address, code) in [
        (2, v5_address(closed), 7),
        (0xf0, v5_address(closed), 7),
        (1, v5_address(closed), 5),
        (1, v5_address(own), 2),
        (1, [&[3, 9], &b"localhost"[..], &own.port().to_be_bytes()].concat(), 2),
        (1, vec![9, 1, 2, 3, 4, 0, 80], 8),
        (1, vec![3, 0, 0, 80], 1),
        (1, long, 4),
    ] {
        let answer = fixture.talk(&v5(&[0], &[], command, &address, b""), 1000, 100).await;
        assert_eq!(answer.get(2..4), Some(&[5, code][..]), "{command} {address:?}");
    }
}

#[tokio::test]
async fn socks4_and_4a() {
    let (fixture, target) = (Fixture::start(|_| ()), echo().await);
    let port = target.port().to_be_bytes();
    for (ip, name, granted) in [
        ([127, 0, 0, 1], &b""[..], true),
        ([0, 0, 0, 1], b"localhost\0", true),
        ([0, 0, 0, 7], b"127.0.0.1\0", true),
        ([0, 0, 0, 7], b"\0", false),
    ] {
        let request = [&[4, 1], &port[..], &ip, b"user\0", name, b"hi"].concat();
        let expected = if granted { b"\x00\x5a\0\0\0\0\0\0hi".to_vec() } else { b"\x00\x5b\0\0\0\0\0\0".to_vec() };
        for step in [1, 1000] {
            assert_eq!(fixture.talk(&request, step, expected.len()).await, expected, "{ip:?} {name:?}");
        }
    }
    let bind = [&[4, 2], &port[..], &[127, 0, 0, 1, 0]].concat();
    assert_eq!(fixture.talk(&bind, 100, 100).await[1], 91);
    let request = [&[4, 1], &port[..], &[127, 0, 0, 1], b"u\0"].concat();
    assert_eq!(Fixture::with_login().talk(&request, 100, 100).await[1], 91);
}

#[tokio::test]
async fn udp_association_hears_only_its_client_and_ends_with_it() {
    let fixture = Fixture::start(|_| ());
    let mut targets = Vec::new();
    for _ in 0..3 {
        let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        targets.push(target.local_addr().unwrap());
        tokio::spawn(async move {
            let mut bytes = vec![0; 65_536];
            while let Ok((length, from)) = target.recv_from(&mut bytes).await {
                let _ = target.send_to(&bytes[..length], from).await;
            }
        });
    }
    let mut control = fixture.connect().await;
    control.write_all(&v5(&[0], &[], 3, &[1, 0, 0, 0, 0, 0, 0], b"")).await.unwrap();
    let mut answer = [0; 12];
    control.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer[..6], [5, 0, 5, 0, 0, 1]);
    let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([answer[10], answer[11]])));
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut bytes = vec![0; 65_536];
    for (target, size) in targets.iter().zip([0, 1472, 60_000]) {
        let packet = [&[0, 0, 0], &v5_address(*target)[..], &vec![7; size]].concat();
        client.send_to(&packet, relay).await.unwrap();
        let receive = client.recv_from(&mut bytes);
        let (length, _) = tokio::time::timeout(Duration::from_secs(5), receive).await.expect("an answer").unwrap();
        assert!(bytes[..length] == packet, "{size}");
    }
    // A fragment and a stranger are not heard: what comes back is the answer to the third.
    let fragment = [&[0, 0, 1], &v5_address(targets[0])[..], b"fragment"].concat();
    client.send_to(&fragment, relay).await.unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let foreign = [&[0, 0, 0], &v5_address(targets[0])[..], b"foreign"].concat();
    stranger.send_to(&foreign, relay).await.unwrap();
    let good = [&[0, 0, 0], &v5_address(targets[0])[..], b"good"].concat();
    client.send_to(&good, relay).await.unwrap();
    let (length, _) = client.recv_from(&mut bytes).await.unwrap();
    assert_eq!(bytes[..length], good);
    assert!(stranger.try_recv(&mut bytes).is_err());
    drop(control);
    // The port is free again soon.
    let gone = async {
        while UdpSocket::bind(relay).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the relay port closes");
}

/// An HTTP server: the path says what to answer; the body is the request as it came.
async fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                let done = |r: &[u8]| {
                    let text = String::from_utf8_lossy(r).to_string();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
                    let head = head.to_ascii_lowercase();
                    if head.contains("transfer-encoding") {
                        return body.ends_with("0\r\n\r\n") || body.ends_with("x: y\r\n\r\n");
                    }
                    let length = head.split("content-length: ").nth(1).and_then(|l| l.lines().next()?.parse().ok());
                    body.len() >= length.unwrap_or(0)
                };
                let mut told = false;
                loop {
                    let head = request.windows(4).any(|w| w == b"\r\n\r\n");
                    if head && !told && request.windows(20).any(|w| w == b"Expect: 100-continue") {
                        told = true;
                        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
                    }
                    if done(&request) {
                        break;
                    }
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let text = String::from_utf8_lossy(&request).to_string();
                let path = text.split(' ').nth(1).unwrap().to_owned();
                let answer = match path.as_str() {
                    "/204" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
                    "/304" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n".to_owned(),
                    "/close" => "HTTP/1.1 200 OK\r\n\r\nto the end".to_owned(),
                    "/chunked" => {
                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nt: v\r\n\r\n".to_owned()
                    }
                    "/upgrade" => {
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n".to_owned()
                    }
                    "/garbage" => "\0\0\0\0".to_owned(),
                    _ if text.starts_with("HEAD") => "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n".to_owned(),
                    _ => format!(
                        "HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 1\r\nContent-Length: {}\r\n\r\n{text}",
                        text.len()
                    ),
                };
                stream.write_all(answer.as_bytes()).await.unwrap();
                if path == "/upgrade" {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn connect_with_early_bytes() {
    let (fixture, target) = (Fixture::start(|_| ()), echo().await);
    for (line, minor) in [("CONNECT", 1), ("connect", 1), ("CONNECT", 0)] {
        let request = format!("{line} {target} HTTP/1.{minor}\r\nHost: {target}\r\n\r\nearly");
        let expected = format!("HTTP/1.{minor} 200 Connection established\r\n\r\nearly");
        for step in [1, 1000] {
            let answer = fixture.talk(request.as_bytes(), step, expected.len()).await;
            assert_eq!(String::from_utf8_lossy(&answer), expected);
        }
    }
    let own = fixture.mixed.address();
    for (request, status) in [
        (format!("CONNECT {own} HTTP/1.1\r\n\r\n"), "403"),
        ("CONNECT :80 HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (format!("GET http://{own}/ HTTP/1.1\r\n\r\n"), "403"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "400"),
        ("GET https://a/ HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "400"),
        ("POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), "400"),
        (format!("GET http://a/{} HTTP/1.1\r\n\r\n", "a".repeat(40_000)), "400"),
    ] {
        let answer = fixture.talk(request.as_bytes(), 100_000, 1 << 20).await;
        assert_eq!(String::from_utf8_lossy(&answer).get(9..12), Some(status), "{request:.60}");
    }
    assert!(fixture.talk(&[0x16, 3, 1, 0, 5], 10, 100).await.is_empty());
}

#[tokio::test]
async fn absolute_form_is_forwarded_with_keep_alive_and_pipelining() {
    let (fixture, one, two) = (Fixture::start(|_| ()), origin().await, origin().await);
    let requests = [
        format!(
            "GET http://u:p@{one}/a?b#c HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nConnection: X-Mine\r\nX-Mine: 1\r\nX-Kept: 1\r\n\r\n"
        ),
        format!("POST http://{two}/post HTTP/1.1\r\nHost: {two}\r\nContent-Length: 4\r\n\r\nbody"),
        format!("POST http://{one}/post HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nx: y\r\n\r\n"),
        format!("HEAD http://{one} HTTP/1.1\r\n\r\n"),
        format!("GET http://{one}/204 HTTP/1.1\r\n\r\n"),
        format!("GET http://{one}/304 HTTP/1.1\r\n\r\n"),
        format!("GET http://{one}/chunked HTTP/1.1\r\n\r\n"),
        format!("POST http://{one}/expect HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok"),
        format!("GET http://{two}/close HTTP/1.1\r\n\r\n"),
    ];
    let all = requests.concat();
    for step in [1, 7, 100_000] {
        let answer = fixture.talk(all.as_bytes(), step, 1 << 20).await;
        let answer = String::from_utf8(answer).unwrap();
        let first = format!("GET /a?b HTTP/1.1\r\nHost: {one}\r\nX-Kept: 1\r\nConnection: close\r\n\r\n");
        let expected = [
            format!("HTTP/1.1 200 OK\r\nX-End: 1\r\nContent-Length: {}\r\nConnection: keep-alive\r\n\r\n{first}", first.len()),
            format!("POST /post HTTP/1.1\r\nHost: {two}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbodyHTTP/1.1 200 OK\r\n"),
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nab\r\n0\r\nx: y\r\n\r\nHTTP/1.1 200 OK\r\n".to_owned(),
            "Content-Length: 1234\r\nConnection: keep-alive\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n".to_owned(),
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nConnection: keep-alive\r\n\r\nHTTP/1.1 200 OK\r\n".to_owned(),
            "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n3\r\nabc\r\n0\r\nt: v\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n".to_owned(),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end".to_owned(),
        ];
        let mut rest = answer.as_str();
        for part in expected {
            let at = rest.find(&part).unwrap_or_else(|| panic!("step {step}: no\n{part}\nin\n{rest}"));
            rest = &rest[at + part.len()..];
        }
        assert!(rest.is_empty(), "{rest}");
        assert!(!answer.contains("X-Hop") && !answer.contains("Basic"), "{answer}");
    }
}

#[tokio::test]
async fn forwarding_fails_and_upgrades_in_plain_words() {
    let (fixture, one) = (Fixture::start(|_| ()), origin().await);
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for target in [format!("{closed}/"), format!("{one}/garbage")] {
        let request = format!("GET http://{target} HTTP/1.1\r\n\r\n");
        let answer = fixture.talk(request.as_bytes(), 1000, 1 << 20).await;
        assert!(answer.starts_with(b"HTTP/1.1 502 "), "{}", String::from_utf8_lossy(&answer));
    }
    let request = format!("GET http://{one}/upgrade HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nping");
    let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nping";
    let answer = fixture.talk(request.as_bytes(), 1000, expected.len()).await;
    assert_eq!(String::from_utf8_lossy(&answer), expected);
    // HTTP/1.0 without keep-alive closes.
    let request = format!("GET http://{one}/old HTTP/1.0\r\n\r\n");
    let answer = fixture.talk(request.as_bytes(), 1000, 1 << 20).await;
    assert!(String::from_utf8_lossy(&answer).contains("Connection: close\r\n\r\nGET /old HTTP/1.0\r\n"));
}

#[tokio::test]
async fn a_request_that_breaks_off_ends_at_the_server_too() {
    let fixture = Fixture::start(|_| ());
    for broken in ["Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\nZZ\r\n"] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let mut client = fixture.connect().await;
        let request = format!("POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\n{broken}");
        client.write_all(request.as_bytes()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        client.shutdown().await.unwrap();
        let mut seen = Vec::new();
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), server.read_to_end(&mut seen)).await;
        assert!(ended.is_ok(), "the server still waits after {broken:?}");
    }
}

#[tokio::test]
async fn http_login_is_asked_for_on_the_same_connection() {
    let (fixture, one) = (Fixture::with_login(), origin().await);
    let ask = format!("GET http://{one}/x HTTP/1.1\r\n\r\n");
    let wrong = format!("GET http://{one}/x HTTP/1.1\r\nProxy-Authorization: Basic dTpx\r\n\r\n");
    let right = format!("GET http://{one}/x HTTP/1.1\r\nProxy-Authorization: bASIC dTpw\r\nConnection: close\r\n\r\n");
    let answer = fixture.talk([ask, wrong, right].concat().as_bytes(), 1000, 1 << 20).await;
    let answer = String::from_utf8(answer).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 407 ").count(), 2, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 200 ").count(), 1, "{answer}");
}

#[tokio::test]
async fn a_taken_port_gives_the_next_and_names_its_holder() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let fixture = Fixture::start(|o| {
        o.port = port;
        o.next_ports = 100;
        o.holder = Some(Arc::new(|_| Some("holder".to_owned())));
    });
    assert!(fixture.mixed.address().port() > port);
    assert_eq!(fixture.mixed.taken(), Some(&Taken { port, holder: Some("holder".to_owned()) }));
}

#[tokio::test]
async fn other_users_are_refused() {
    struct Other;
    impl PeerUser for Other {
        fn user(&self, _: SocketAddr, _: SocketAddr) -> Option<u32> {
            Some(4242)
        }
        fn own(&self) -> u32 {
            1000
        }
    }
    let fixture = Fixture::start(|o| o.peer_user = Some(Arc::new(Other)));
    let mut stream = fixture.connect().await;
    let mut answer = Vec::new();
    let _ = stream.write_all(&[5, 1, 0]).await;
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
}
