//! The stack over a device in memory, driven by hand-made segments.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::*;
use crate::checksum;
use crate::device::HEADROOM;

#[derive(Default)]
struct Wire {
    to_stack: VecDeque<Vec<u8>>,
    from_stack: Vec<(Vec<u8>, Offload)>,
    full: bool,
}

#[derive(Clone)]
struct Memory(Rc<RefCell<Wire>>, Capabilities);

impl Device for Memory {
    fn capabilities(&self) -> Capabilities {
        self.1
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(&mut [u8], Arrived)) -> io::Result<usize> {
        for count in 0..limit {
            let Some(mut packet) = self.0.borrow_mut().to_stack.pop_front() else {
                return Ok(count);
            };
            each(&mut packet, Arrived { checksum_trusted: true, datagram_size: None });
        }
        Ok(limit)
    }

    fn send(&mut self, buffer: &mut [u8], offload: Offload) -> io::Result<bool> {
        let mut wire = self.0.borrow_mut();
        if wire.full {
            return Ok(false);
        }
        wire.from_stack.push((buffer[HEADROOM..].to_vec(), offload));
        Ok(true)
    }

    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.0.borrow().full { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

struct Fixed;

impl Random for Fixed {
    fn fill(&mut self, buffer: &mut [u8]) {
        buffer.fill(9);
    }
}

#[derive(Default)]
struct Seen {
    flows: Vec<(FlowId, SocketAddr, SocketAddr)>,
    datagrams: usize,
}

impl Arrivals for Seen {
    fn tcp(&mut self, id: FlowId, source: SocketAddr, destination: SocketAddr) {
        self.flows.push((id, source, destination));
    }

    fn udp(&mut self, _: SocketAddr, _: SocketAddr, _: &[u8]) {
        self.datagrams += 1;
    }
}

const OFFLOADED: Capabilities =
    Capabilities { mtu: 1500, checksum: true, tcp_segmentation: true, udp_segmentation: true };
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

struct Bench {
    wire: Rc<RefCell<Wire>>,
    stack: Stack<Memory>,
    seen: Seen,
    now: Instant,
}

impl Bench {
    fn new(capabilities: Capabilities, limits: Limits) -> Self {
        let wire = Rc::new(RefCell::new(Wire::default()));
        let now = Instant::now();
        let device = Memory(wire.clone(), capabilities);
        let stack = Stack::new(device, limits, Box::new(Fixed), now);
        Self { wire, stack, seen: Seen::default(), now }
    }

    fn send(&mut self, packet: Vec<u8>) {
        self.wire.borrow_mut().to_stack.push_back(packet);
        self.stack.receive(self.now, 64, &mut self.seen).unwrap();
    }

    fn sent(&self) -> Vec<(Vec<u8>, Offload)> {
        std::mem::take(&mut self.wire.borrow_mut().from_stack)
    }

    /// A flow that is open on both sides; answers with the application's view of the sequence
    /// numbers: its next one, and the stack's next one.
    fn open(&mut self, v6: bool, port: u16) -> (FlowId, u32, u32) {
        self.send(segment(v6, port, SYN, 1000, 0, &[]));
        let id = self.seen.flows.last().unwrap().0;
        assert!(self.sent().is_empty(), "the SYN-ACK waits for the outbound");
        let mut flow = self.stack.flow(id, self.now).unwrap();
        flow.accept();
        flow.egress();
        let sent = self.sent();
        let tcp = tcp_of(&sent[0].0);
        assert!(tcp.syn && tcp.ack && tcp.acknowledgement == 1001);
        let theirs = tcp.sequence.wrapping_add(1);
        self.send(segment(v6, port, ACK, 1001, theirs, &[]));
        (id, 1001, theirs)
    }
}

fn segment(v6: bool, port: u16, flags: u8, sequence: u32, acknowledgement: u32, payload: &[u8]) -> Vec<u8> {
    let (source, destination): (std::net::IpAddr, std::net::IpAddr) = if v6 {
        ("fd00::1".parse().unwrap(), "2001:db8::1".parse().unwrap())
    } else {
        ("10.0.0.1".parse().unwrap(), "1.2.3.4".parse().unwrap())
    };
    let options: &[u8] = if flags & SYN != 0 { &[2, 4, 5, 0xb4, 1, 3, 3, 8] } else { &[] };
    let length = 20 + options.len() + payload.len();
    let mut bytes = vec![0; packet::ip_header_len(source)];
    packet::write_ip(&mut bytes, source, destination, TCP, length);
    bytes.extend(port.to_be_bytes());
    bytes.extend(443u16.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(acknowledgement.to_be_bytes());
    bytes.extend([((20 + options.len()) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(options);
    bytes.extend(payload);
    bytes
}

fn tcp_of(bytes: &[u8]) -> packet::TcpHeader {
    let header = packet::parse(bytes).unwrap();
    packet::parse_tcp(&bytes[header.payload..header.end]).unwrap()
}

#[test]
fn a_large_write_leaves_as_one_packet_for_the_device_to_cut() {
    for v6 in [false, true] {
        let mut bench = Bench::new(OFFLOADED, Limits::default());
        let (id, _, _) = bench.open(v6, 4000);
        let mut flow = bench.stack.flow(id, bench.now).unwrap();
        flow.write(|place| {
            place[..50_000].fill(3);
            (50_000, ())
        });
        flow.egress();
        let sent = bench.sent();
        assert_eq!(sent.len(), 1);
        let (bytes, Offload::Segment(sum, segmentation)) = &sent[0] else { panic!("not cut") };
        assert_eq!(segmentation.size, 1460);
        assert_eq!(tcp_of(bytes).payload_len, 50_000);
        let header = packet::parse(bytes).unwrap();
        assert_eq!(usize::from(sum.start), header.payload);
        let field = &bytes[header.payload + 16..header.payload + 18];
        let length = header.end - header.payload;
        let pseudo = checksum::partial(header.source, header.destination, TCP, length);
        assert_eq!(field, pseudo.to_be_bytes());
    }
}

#[test]
fn without_offloads_segments_are_small_and_summed() {
    for v6 in [false, true] {
        let mut bench = Bench::new(Capabilities::plain(1500), Limits::default());
        let (id, _, _) = bench.open(v6, 4000);
        let mut flow = bench.stack.flow(id, bench.now).unwrap();
        flow.write(|place| {
            place[..5_000].fill(3);
            (5_000, ())
        });
        flow.egress();
        let sent = bench.sent();
        assert_eq!(sent.len(), 4);
        for (bytes, offload) in &sent {
            assert_eq!(*offload, Offload::Complete);
            let header = packet::parse(bytes).unwrap();
            assert!(bytes.len() <= 1460 + 60);
            let sum = checksum::transport(header.source, header.destination, TCP, &bytes[header.payload..header.end]);
            assert_eq!(sum, 0);
        }
    }
}

#[test]
fn a_refused_syn_is_reset() {
    let mut bench = Bench::new(OFFLOADED, Limits::default());
    bench.send(segment(false, 4000, SYN, 1000, 0, &[]));
    let id = bench.seen.flows[0].0;
    bench.stack.forget(id, bench.now);
    let sent = bench.sent();
    let tcp = tcp_of(&sent[0].0);
    assert!(tcp.rst && tcp.ack && tcp.acknowledgement == 1001);
    assert_eq!(bench.stack.live_flows(), 0);
    assert!(bench.stack.flow(id, bench.now).is_none());
}

#[test]
fn a_segment_of_no_flow_is_reset_and_a_reset_is_not() {
    let mut bench = Bench::new(Capabilities::plain(1500), Limits::default());
    bench.send(segment(true, 4000, ACK, 5, 77, b"stray"));
    let sent = bench.sent();
    let tcp = tcp_of(&sent[0].0);
    assert!(tcp.rst && !tcp.ack && tcp.sequence == 77);
    let header = packet::parse(&sent[0].0).unwrap();
    let bytes = &sent[0].0[header.payload..];
    assert_eq!(checksum::transport(header.source, header.destination, TCP, bytes), 0);
    bench.send(segment(true, 4000, RST, 5, 0, &[]));
    assert!(bench.sent().is_empty());
}

#[test]
fn a_flood_of_syns_is_bounded() {
    let limits = Limits { flows: 100, unanswered: 10 };
    let mut bench = Bench::new(OFFLOADED, limits);
    for port in 1..1000 {
        bench.send(segment(false, port, SYN, 1, 0, &[]));
    }
    assert_eq!(bench.seen.flows.len(), 10);
    assert_eq!(bench.stack.losses().flows_over_limit, 989);
    for (id, _, _) in std::mem::take(&mut bench.seen.flows) {
        bench.stack.forget(id, bench.now);
    }
    bench.send(segment(false, 2000, SYN, 1, 0, &[]));
    assert_eq!(bench.seen.flows.len(), 1, "room again");
}

#[test]
fn a_full_device_loses_nothing() {
    let mut bench = Bench::new(OFFLOADED, Limits::default());
    let (id, mine, theirs) = bench.open(false, 4000);
    bench.wire.borrow_mut().full = true;
    let mut flow = bench.stack.flow(id, bench.now).unwrap();
    flow.write(|place| {
        place[..200_000].fill(3);
        (200_000, ())
    });
    flow.egress();
    assert!(bench.stack.is_blocked());
    assert_eq!(bench.stack.flow(id, bench.now).unwrap().deadline(), None);
    bench.wire.borrow_mut().full = false;
    let mut cx = Context::from_waker(Waker::noop());
    assert!(bench.stack.poll_flush(&mut cx).is_ready());
    let mut received = 0;
    for _ in 0..10 {
        bench.stack.flow(id, bench.now).unwrap().egress();
        for (bytes, _) in bench.sent() {
            let tcp = tcp_of(&bytes);
            assert_eq!(tcp.sequence, theirs.wrapping_add(received), "no gap");
            received += tcp.payload_len as u32;
        }
        let acknowledged = theirs.wrapping_add(received);
        bench.send(segment(false, 4000, ACK, mine, acknowledged, &[]));
    }
    assert_eq!(received, 200_000);
}

#[test]
fn bytes_are_read_and_the_end_is_seen() {
    let mut bench = Bench::new(OFFLOADED, Limits::default());
    let (id, mine, theirs) = bench.open(true, 4000);
    bench.send(segment(true, 4000, ACK, mine, theirs, b"hello"));
    bench.send(segment(true, 4000, ACK | 1, mine + 5, theirs, &[]));
    let mut flow = bench.stack.flow(id, bench.now).unwrap();
    assert_eq!(flow.readable(), Readable::Data);
    assert_eq!(flow.read(|bytes| (bytes.len(), bytes.to_vec())).unwrap(), b"hello");
    assert_eq!(flow.readable(), Readable::Finished);
    assert!(flow.room().unwrap() > 0, "the other direction stays open");
    flow.finish();
    flow.egress();
    let sent = bench.sent();
    let last = tcp_of(&sent.last().unwrap().0);
    assert!(last.fin);
    bench.send(segment(true, 4000, ACK, mine + 6, theirs.wrapping_add(1), &[]));
    assert!(bench.stack.flow(id, bench.now).unwrap().is_over());
}

#[test]
fn a_reset_before_the_answer_ends_the_flow() {
    let mut bench = Bench::new(OFFLOADED, Limits::default());
    bench.send(segment(false, 4000, SYN, 1000, 0, &[]));
    bench.send(segment(false, 4000, RST, 1001, 0, &[]));
    let id = bench.seen.flows[0].0;
    assert_eq!(bench.stack.flow(id, bench.now).unwrap().readable(), Readable::Broken);
    bench.stack.forget(id, bench.now);
    assert_eq!(bench.stack.live_flows(), 0);
}
