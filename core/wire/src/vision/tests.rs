use super::*;
use crate::chunk::{Open, OpenError, Opened, Seal};
use crate::random::Random;
use crate::random::counted::Counted;

const USER: [u8; 16] = *b"0123456789abcdef";

/// A stand-in for the outer TLS: two bytes of length in front, one check byte behind.
struct Outer;

impl Seal for Outer {
    fn max_payload(&self) -> usize {
        16384
    }
    fn head(&self) -> usize {
        2
    }
    fn tail(&self) -> usize {
        1
    }
    fn seal(&mut self, chunk: &mut [u8], payload: usize, _: &mut dyn Random) -> usize {
        chunk[..2].copy_from_slice(&(payload as u16).to_be_bytes());
        chunk[2 + payload] = 0xee;
        payload + 3
    }
    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0, 0xee]);
    }
}

impl Open for Outer {
    fn max_chunk(&self) -> usize {
        16387
    }
    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        let Some(&length) = input.first_chunk() else {
            return Ok(Opened::NeedMore(2));
        };
        let length = usize::from(u16::from_be_bytes(length));
        match input.get(length + 2) {
            None => Ok(Opened::NeedMore(length + 3)),
            Some(0xee) if length == 0 => Ok(Opened::End { consumed: 3 }),
            Some(0xee) => Ok(Opened::Chunk { consumed: length + 3, payload: 2..2 + length }),
            Some(_) => Err(OpenError::Authentication("outer")),
        }
    }
}

/// One direction: a sender and its receiver.
struct Direction {
    seal: VisionSeal<Outer>,
    open: VisionOpen<Outer>,
    wire: Vec<u8>,
    sent: Vec<u8>,
    received: Vec<u8>,
    random: Counted,
}

/// Both directions of one connection; each end has its own filter.
fn pair(seed: u64) -> (Direction, Direction) {
    let (client, server) = (SharedFilter::default(), SharedFilter::default());
    let direction = |seal, open, seed| Direction {
        seal,
        open,
        wire: Vec::new(),
        sent: Vec::new(),
        received: Vec::new(),
        random: Counted::new(seed),
    };
    let up = direction(
        VisionSeal::new(Outer, USER, Vec::new(), client.clone()),
        VisionOpen::server(Outer, USER, 0, server.clone()),
        seed,
    );
    let down = direction(
        VisionSeal::new(Outer, USER, vec![0, 3, 7, 7, 7], server),
        VisionOpen::client(Outer, USER, client),
        seed + 1,
    );
    (up, down)
}

impl Direction {
    /// Sends `bytes` as a stream with chunks of at most `most` bytes would.
    fn send(&mut self, mut bytes: &[u8], most: usize) {
        self.sent.extend_from_slice(bytes);
        while !bytes.is_empty() {
            let (head, tail) = (self.seal.head(), self.seal.tail());
            let place = most.min(self.seal.max_payload());
            let payload = place.min(bytes.len());
            let mut chunk = vec![0x55; head + place + tail];
            chunk[head..head + payload].copy_from_slice(&bytes[..payload]);
            let sealed = self.seal.seal(&mut chunk, payload, &mut self.random);
            self.wire.extend_from_slice(&chunk[..sealed]);
            bytes = &bytes[payload..];
        }
    }

    /// Receives what lies on the wire, `step` bytes at a time.
    fn receive(&mut self, step: usize) {
        let mut buffer = Vec::new();
        for piece in std::mem::take(&mut self.wire).chunks(step) {
            buffer.extend_from_slice(piece);
            loop {
                match self.open.open(&mut buffer).unwrap() {
                    Opened::NeedMore(_) => break,
                    Opened::End { .. } => panic!("no end was sent"),
                    Opened::Chunk { consumed, payload } => {
                        self.received.extend_from_slice(&buffer[payload]);
                        buffer.drain(..consumed);
                    }
                }
                if buffer.is_empty() {
                    break;
                }
            }
        }
        assert!(buffer.is_empty(), "{} bytes were left", buffer.len());
        assert_eq!(self.sent.len(), self.received.len());
        assert!(self.sent == self.received);
    }
}

fn record(kind: u8, length: usize) -> Vec<u8> {
    let mut out = vec![kind, 3, 3, (length >> 8) as u8, length as u8];
    out.extend((0..length).map(|at| at as u8));
    out
}

fn client_hello() -> Vec<u8> {
    let mut hello = record(22, 517);
    hello[2] = 1;
    hello[5] = 1;
    hello
}

/// A ServerHello with a 32-byte session id, this cipher, and the given end.
fn server_hello(cipher: u16, end: &[u8]) -> Vec<u8> {
    let mut hello = record(22, 122);
    hello[5] = 2;
    hello[43] = 32;
    hello[76..78].copy_from_slice(&cipher.to_be_bytes());
    let at = hello.len() - end.len();
    hello[at..].copy_from_slice(end);
    hello
}

const TLS13: &[u8] = &[0, 0x2b, 0, 2, 3, 4];

#[test]
fn tls13_goes_outside_in_both_directions() {
    for step in [1, 7, 1400, 1 << 20] {
        for most in [300, 8171] {
            let (mut up, mut down) = pair(step as u64);
            up.send(&client_hello(), most);
            up.receive(step);
            let mut flight = server_hello(0x1301, TLS13);
            flight.extend(record(20, 1));
            down.send(&flight, most);
            down.send(&record(23, 2000), most);
            down.receive(step);
            let mut finished = record(20, 1);
            finished.extend(record(23, 53));
            up.send(&finished, most);
            up.send(&record(23, 400), most);
            up.receive(step);
            assert!(down.seal.transparent() && up.seal.transparent(), "most {most}");
            assert!(down.open.transparent() && up.open.transparent());
            let bulk = record(23, 16000).repeat(3);
            up.send(&bulk, 1 << 20);
            assert_eq!(up.wire, bulk);
            up.receive(step);
            let mut end = Vec::new();
            up.seal.finish(&mut end);
            assert!(end.is_empty(), "nothing of the outer TLS goes out after the switch");
        }
    }
}

#[test]
fn records_larger_than_a_block_still_let_the_switch_happen() {
    let (mut up, mut down) = pair(5);
    up.send(&client_hello(), 8171);
    up.receive(1 << 20);
    down.send(&server_hello(0x1302, TLS13), 8171);
    // Pieces of a large download, never cut where a record ends.
    let stream = record(23, 16401).repeat(4);
    for piece in stream.chunks(8171) {
        down.send(piece, 8171);
    }
    down.receive(997);
    assert!(down.open.transparent());
}

#[test]
fn tls12_and_unknown_ciphers_stay_inside() {
    for hello in [server_hello(0x1301, &[1; 6]), server_hello(0x1305, TLS13)] {
        let (mut up, mut down) = pair(3);
        up.send(&client_hello(), 8171);
        up.receive(64);
        down.send(&hello, 8171);
        down.receive(64);
        up.send(&[record(23, 100), record(23, 50)[..20].to_vec()].concat(), 8171);
        up.send(&record(23, 50)[20..], 8171);
        up.receive(64);
        assert!(!up.seal.transparent() && !up.open.transparent());
        assert_eq!(up.seal.head(), 2, "no more padding");
    }
}

#[test]
fn other_protocols_stop_padding_after_a_few_pieces() {
    let (mut up, mut down) = pair(4);
    for _ in 0..12 {
        up.send(b"GET / HTTP/1.1\r\n\r\n", 8171);
        up.receive(5);
        down.send(&[b'x'; 20000], 8171);
        down.receive(333);
    }
    assert_eq!((up.seal.head(), down.seal.head()), (2, 2));
    let mut end = Vec::new();
    up.seal.finish(&mut end);
    assert_eq!(end, [0, 0, 0xee]);
}

#[test]
fn handshakes_are_padded_to_a_common_size() {
    let (mut up, _) = pair(11);
    up.send(&client_hello(), 8171);
    // 517 + 5 bytes of hello, 21 of headers, 3 of the outer: padded to 900 at least.
    assert!((921..1424 + 24).contains(&up.wire.len()), "{}", up.wire.len());
}

#[test]
fn the_opening_carries_the_header_and_an_empty_block() {
    let mut seal = VisionSeal::new(Outer, USER, b"request".to_vec(), SharedFilter::default());
    let wire = seal.opening(&mut Counted::new(1));
    assert_eq!(&wire[2..9], b"request");
    assert_eq!(&wire[9..25], &USER);
    assert_eq!(&wire[25..28], [0, 0, 0]);
    assert!(wire.len() > 900);
    assert_eq!(seal.head(), 2 + 5);
    let mut open = VisionOpen::server(Outer, USER, wire.len() - 3 - 7, SharedFilter::default());
    let mut rest = wire[9..wire.len() - 1].to_vec();
    let length = rest.len();
    assert_eq!(open.open(&mut rest).unwrap(), Opened::Chunk { consumed: length, payload: length..length });
}

#[test]
fn a_server_that_does_not_pad_is_refused() {
    let mut open = VisionOpen::client(Outer, USER, SharedFilter::default());
    let mut wire = vec![0, 30, 0, 0];
    wire.extend_from_slice(&[b'H'; 28]);
    wire.push(0xee);
    assert!(matches!(open.open(&mut wire), Err(OpenError::Malformed(_))));
}

#[test]
fn a_split_server_hello_is_still_recognised() {
    for cut in [79, 100, 121, 125] {
        let mut filter = Filter::default();
        filter.observe(&client_hello());
        let hello = server_hello(0x1303, TLS13);
        filter.observe(&hello[..cut]);
        assert!(!filter.may_go_direct());
        filter.observe(&hello[cut..]);
        assert!(filter.may_go_direct(), "cut at {cut}");
    }
}
