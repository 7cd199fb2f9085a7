use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::address::{Destination, Host};
use crate::chunk::{Open, OpenError, Opened, Seal};
use crate::random::Random;

struct Counting(u64);

impl Random for Counting {
    fn fill(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 33) as u8;
        }
    }
}

fn clock(now: u64) -> (Clock, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(now));
    let handle = time.clone();
    (Arc::new(move || time.load(Ordering::Relaxed)), handle)
}

fn key(method: Method, fill: u8) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(vec![fill; method.key_length()])
}

fn password(method: Method) -> String {
    if method.is_2022() { key(method, 1) } else { "a password".to_owned() }
}

fn target(host: &str) -> Destination {
    Destination::new(Host::parse(host).unwrap(), 8080)
}

fn drain(open: &mut dyn Open, wire: &mut [u8]) -> Result<Vec<u8>, OpenError> {
    let mut plain = Vec::new();
    let (mut at, mut given) = (0, 0);
    loop {
        match open.open(&mut wire[at..at + given])? {
            Opened::NeedMore(more) if at + more > wire.len() => {
                return open.ended(wire.len() - at).map(|()| plain);
            }
            Opened::NeedMore(more) => given = more,
            Opened::Chunk { consumed, payload } => {
                plain.extend_from_slice(&wire[at + payload.start..at + payload.end]);
                at += consumed;
                given = 0;
            }
            Opened::End { .. } => panic!("Shadowsocks has no end mark"),
        }
    }
}

fn put(seal: &mut dyn Seal, payload: &[u8], wire: &mut Vec<u8>) {
    for piece in payload.chunks(seal.max_payload()) {
        let (head, tail) = (seal.head(), seal.tail());
        let mut chunk = vec![0; head + piece.len() + tail];
        chunk[head..head + piece.len()].copy_from_slice(piece);
        let used = seal.seal(&mut chunk, piece.len(), &mut Counting(9));
        wire.extend_from_slice(&chunk[..used]);
    }
}

fn read(server: &mut Server, wire: &[u8], clock: &Clock) -> Result<Box<Accepted>, RequestError> {
    for cut in 0..wire.len().min(400) {
        match server.read(&wire[..cut], clock)? {
            Step::NeedMore(more) => assert!(more > cut),
            Step::Request(accepted) => return Ok(accepted),
        }
    }
    match server.read(wire, clock)? {
        Step::NeedMore(more) => panic!("needs {more} of {}", wire.len()),
        Step::Request(accepted) => Ok(accepted),
    }
}

#[test]
fn streams_work_both_ways_with_every_method() {
    let long: Vec<u8> = (0..200_000u32).map(|i| (i * 31) as u8).collect();
    let name = "n".repeat(255);
    let (clock, _) = clock(1000);
    for method in Method::ALL {
        let mut server = Server::new(method, &password(method), &[]).unwrap();
        let client = Client::new(Keys::new(method, &password(method)).unwrap());
        for (k, (host, first)) in
            [("192.0.2.1", 0), ("::1", 1), ("a.b", 100_000), (name.as_str(), 16_000)].into_iter().enumerate()
        {
            let mut wire = Vec::new();
            let (mut seal, mut client_open) =
                client.start(&target(host), &long[..first], &clock, &mut Counting(k as u64), &mut wire);
            put(&mut seal, &long[first..], &mut wire);
            let mut accepted = read(&mut server, &wire, &clock).unwrap();
            assert_eq!(accepted.destination, target(host));
            let mut plain = accepted.payload.clone();
            plain.extend(drain(&mut accepted.open, &mut wire[accepted.consumed..]).unwrap());
            assert!(plain == long, "{method:?}");
            assert!(matches!(read(&mut server, &wire, &clock), Err(RequestError::Replayed)));

            let mut answer = Vec::new();
            assert_eq!(accepted.seal.chunks_ahead(), 1);
            put(&mut accepted.seal, &long[..70_000], &mut answer);
            assert!(drain(&mut client_open, &mut answer).unwrap() == long[..70_000], "{method:?}");
        }
    }
}

#[test]
fn identity_headers_choose_the_user() {
    let (clock, _) = clock(1000);
    for method in [Method::Blake3Aes128Gcm, Method::Blake3Aes256Gcm] {
        let users = [key(method, 2), key(method, 3)];
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        let mut server = Server::new(method, &key(method, 1), &users).unwrap();
        let start = |fill| {
            let keys = Keys::new(method, &format!("{}:{}", key(method, 1), key(method, fill))).unwrap();
            let mut wire = Vec::new();
            let (_, open) =
                Client::new(keys).start(&target("a.b"), b"hello", &clock, &mut Counting(u64::from(fill)), &mut wire);
            (wire, open)
        };
        let (wire, mut open) = start(3);
        let mut accepted = read(&mut server, &wire, &clock).unwrap();
        assert_eq!((accepted.user, accepted.payload.as_slice()), (1, &b"hello"[..]));
        let mut answer = Vec::new();
        put(&mut accepted.seal, b"back", &mut answer);
        assert_eq!(drain(&mut open, &mut answer).unwrap(), b"back");
        let (wire, _) = start(4);
        assert!(matches!(read(&mut server, &wire, &clock), Err(RequestError::UnknownUser)));
    }
    assert_eq!(
        Server::new(Method::Blake3ChaCha20Poly1305, &key(Method::Blake3ChaCha20Poly1305, 1), &["x"]).err(),
        Some(KeyError::TooMany)
    );
}

#[test]
fn clocks_may_differ_by_half_a_minute() {
    let method = Method::Blake3Aes128Gcm;
    let client = Client::new(Keys::new(method, &password(method)).unwrap());
    let (now, _) = clock(1000);
    let mut wire = Vec::new();
    let (_, mut open) = client.start(&target("a.b"), b"x", &now, &mut Counting(1), &mut wire);
    for (ours, skew) in [(970, None), (1030, None), (969, Some(31)), (1031, Some(-31))] {
        let (server_clock, _) = clock(ours);
        let mut server = Server::new(method, &password(method), &[]).unwrap();
        match (read(&mut server, &wire, &server_clock), skew) {
            (Ok(_), None) => {}
            (Err(RequestError::Open(OpenError::ClockSkew { seconds, allowed: 30 })), Some(skew)) => {
                assert_eq!(seconds, skew);
            }
            (result, _) => panic!("{ours}: {:?}", result.map(|a| a.consumed)),
        }
    }
    let mut server = Server::new(method, &password(method), &[]).unwrap();
    let mut accepted = read(&mut server, &wire, &now).unwrap();
    let (late, _) = clock(1000);
    drop(late);
    let mut answer = Vec::new();
    put(&mut accepted.seal, b"y", &mut answer);
    // The same bytes against another request's salt.
    let (_, mut other) = client.start(&target("a.b"), b"x", &now, &mut Counting(2), &mut Vec::new());
    assert!(matches!(drain(&mut other, &mut answer.clone()), Err(OpenError::Malformed(_))));
    assert_eq!(drain(&mut open, &mut answer).unwrap(), b"y");
}

#[test]
fn a_wrong_password_opens_nothing() {
    let (clock, _) = clock(1000);
    for method in Method::ALL {
        let wrong = if method.is_2022() { key(method, 9) } else { "another".to_owned() };
        let client = Client::new(Keys::new(method, &wrong).unwrap());
        let mut wire = Vec::new();
        let (_, open) = client.start(&target("a.b"), b"secret", &clock, &mut Counting(1), &mut wire);
        let mut server = Server::new(method, &password(method), &[]).unwrap();
        let result = read(&mut server, &wire, &clock);
        assert!(matches!(result, Err(RequestError::Open(OpenError::Authentication(_)))), "{method:?}");
        assert!(matches!(open.ended(0), Err(OpenError::Unanswered(_))));
    }
}

#[test]
fn keys_are_checked() {
    let method = Method::Blake3Aes128Gcm;
    assert_eq!(Keys::new(method, "!").err(), Some(KeyError::NotBase64(16)));
    assert_eq!(
        Keys::new(method, &key(Method::Blake3Aes256Gcm, 1)).err(),
        Some(KeyError::Length { found: 32, needed: 16 })
    );
    assert_eq!(Keys::new(method, "").err(), Some(KeyError::Empty));
    assert_eq!(format!("{:?}", Keys::new(method, &key(method, 1)).unwrap()), "Keys(2022-blake3-aes-128-gcm, …)");
}

#[test]
fn the_stretched_password_matches_openssl() {
    // echo -n | openssl enc -aes-256-cbc -md md5 -nosalt -pass pass:foobar -P
    let keys = Keys::new(Method::Aes256Gcm, "foobar").unwrap();
    let hex: String = keys.user.bytes().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, "3858f62230ac3c915f300c664312c63f568378529614d22ddb49237d2f60bfdf");
}

fn packet_pair(method: Method, identities: bool) -> (PacketClient, PacketServer) {
    if identities {
        let user = key(method, 2);
        let keys = Keys::new(method, &format!("{}:{user}", key(method, 1))).unwrap();
        let server = PacketServer::new(method, &key(method, 1), &[&key(method, 7), &user]).unwrap();
        return (PacketClient::new(&keys, &mut Counting(5)), server);
    }
    let keys = Keys::new(method, &password(method)).unwrap();
    (PacketClient::new(&keys, &mut Counting(5)), PacketServer::new(method, &password(method), &[]).unwrap())
}

#[test]
fn datagrams_work_both_ways_with_every_method() {
    let cases = Method::ALL
        .into_iter()
        .map(|m| (m, false))
        .chain([(Method::Blake3Aes128Gcm, true), (Method::Blake3Aes256Gcm, true)]);
    for (method, identities) in cases {
        let (mut client, mut server) = packet_pair(method, identities);
        let mut random = Counting(11);
        for host in ["192.0.2.1", "a.b", "::1"] {
            for length in [0, 1, 1400, 9000] {
                let payload = vec![7; length];
                let mut packet = Vec::new();
                client.seal(&target(host), &payload, 100, &mut random, &mut packet);
                let copy = packet.clone();
                let incoming = server.open(&mut packet, 100, &mut random).unwrap();
                assert_eq!((&incoming.target, incoming.user), (&target(host), usize::from(identities)));
                assert_eq!(packet[incoming.payload.clone()], payload);
                if method.is_2022() {
                    assert_eq!(server.open(&mut copy.clone(), 100, &mut random), Err(PacketError::Replayed));
                }
                let mut answer = Vec::new();
                server.seal(incoming.session, &target(host), &payload, 101, &mut random, &mut answer).unwrap();
                let again = answer.clone();
                let (source, place) = client.open(&mut answer, 101).unwrap();
                assert_eq!((source, &answer[place]), (target(host), payload.as_slice()));
                if method.is_2022() {
                    assert_eq!(client.open(&mut again.clone(), 101), Err(PacketError::Replayed));
                    assert!(matches!(
                        client.open(&mut again.clone(), 140),
                        Err(PacketError::Open(OpenError::ClockSkew { .. }))
                    ));
                }
                let mut damaged = again.clone();
                *damaged.last_mut().unwrap() ^= 1;
                assert!(client.open(&mut damaged, 101).is_err());
                for cut in 0..again.len().min(80) {
                    assert!(client.open(&mut again[..cut].to_vec(), 101).is_err());
                    assert!(server.open(&mut again[..cut].to_vec(), 101, &mut random).is_err());
                }
            }
        }
    }
}

#[test]
fn a_server_may_restart_once_a_minute() {
    let method = Method::Blake3Aes256Gcm;
    let (mut client, mut first) = packet_pair(method, false);
    let mut random = Counting(3);
    let mut exchange = |client: &mut PacketClient, server: &mut PacketServer, now: u64| {
        let mut packet = Vec::new();
        client.seal(&target("a.b"), b"q", now, &mut random, &mut packet);
        let incoming = server.open(&mut packet, now, &mut random).unwrap();
        let mut answer = Vec::new();
        server.seal(incoming.session, &target("a.b"), b"a", now, &mut random, &mut answer).unwrap();
        client.open(&mut answer, now).map(|_| ())
    };
    let fresh = || PacketServer::new(method, &password(method), &[]).unwrap();
    assert_eq!(exchange(&mut client, &mut first, 100), Ok(()));
    assert_eq!(exchange(&mut client, &mut fresh(), 110), Ok(()));
    assert_eq!(exchange(&mut client, &mut first, 111), Ok(()), "the previous session is still heard");
    assert_eq!(exchange(&mut client, &mut fresh(), 120), Err(PacketError::UnknownSession));
    assert_eq!(exchange(&mut client, &mut fresh(), 172), Ok(()));
}
