//! One shard: a device's queue, its TCP flows and its UDP datagrams.
//!
//! The owner reads batches with [`Stack::receive`], serves the flows whose wakers that woke, and
//! lets each flow send with [`Flow::egress`] once it has moved its bytes, so that acknowledgements
//! and window updates of a batch go out as one.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use culvert_wire::random::Random;
use slab::Slab;

use crate::device::{Capabilities, Device};
use crate::fragment::Reassembly;
use crate::offload::{Arrived, Offload};
use crate::packet::{self, FlowKey, Header, ICMP, ICMPV6, TCP, UDP};
use crate::rings;
use crate::tcp::{self, Inbound, Tcp};
use crate::transmit::{Queue, Sink, Transmitter};
use crate::{icmp, udp};

pub use crate::icmp::Refusal;

/// Bounds of one shard.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// TCP flows that may live at once; further SYNs are not answered.
    pub flows: usize,
    /// TCP flows whose SYN is not answered yet; further SYNs are not answered. This bounds what a
    /// flood of SYNs costs.
    pub unanswered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { flows: 32_768, unanswered: 2_048 }
    }
}

/// Names a TCP flow of a stack until [`Stack::forget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId(usize);

/// Takes what arrives.
pub trait Arrivals {
    /// A TCP flow begins; its SYN waits for [`Flow::accept`] or [`Flow::abort`].
    fn tcp(&mut self, id: FlowId, source: SocketAddr, destination: SocketAddr);

    /// A UDP datagram.
    fn udp(&mut self, source: SocketAddr, destination: SocketAddr, payload: &[u8]);
}

/// What was left out, since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Packets that are malformed, of unknown protocols, or to no single host.
    pub unusable: u64,
    /// SYNs beyond the limits.
    pub flows_over_limit: u64,
    /// Packets that found the device and the queue in front of it full.
    pub queue_full: u64,
    /// Packets that the device refused.
    pub refused: u64,
}

struct Entry {
    tcp: Tcp,
    waker: Option<Waker>,
}

/// One shard.
pub struct Stack<D> {
    transmitter: Transmitter<D>,
    table: Table,
    reassembly: Reassembly,
    started: Instant,
}

struct Table {
    flows: Slab<Box<Entry>>,
    by_key: HashMap<FlowKey, usize>,
    unanswered: usize,
    woken: Vec<Waker>,
    limits: Limits,
    random: Box<dyn Random>,
    capabilities: Capabilities,
    unusable: u64,
    over_limit: u64,
}

impl<D: Device> Stack<D> {
    /// A stack over one queue. `random` seeds initial sequence numbers: it must be unpredictable.
    pub fn new(device: D, limits: Limits, random: Box<dyn Random>, now: Instant) -> Self {
        let transmitter = Transmitter::new(device);
        Self {
            table: Table {
                flows: Slab::new(),
                by_key: HashMap::new(),
                unanswered: 0,
                woken: Vec::new(),
                limits,
                random,
                capabilities: transmitter.capabilities(),
                unusable: 0,
                over_limit: 0,
            },
            transmitter,
            reassembly: Reassembly::default(),
            started: now,
        }
    }

    /// What the device takes over.
    pub fn capabilities(&self) -> Capabilities {
        self.transmitter.capabilities()
    }

    /// TCP flows that live.
    pub fn live_flows(&self) -> usize {
        self.table.flows.len()
    }

    /// What was left out so far.
    pub fn losses(&self) -> Losses {
        let (queue_full, refused) = self.transmitter.losses();
        Losses { unusable: self.table.unusable, flows_over_limit: self.table.over_limit, queue_full, refused }
    }

    /// Why the device last refused a packet, if it did since this was asked before.
    pub fn take_refusal(&mut self) -> Option<io::Error> {
        self.transmitter.take_refusal()
    }

    fn time(&self, now: Instant) -> smoltcp::time::Instant {
        time(self.started, now)
    }

    /// Waits until packets may lie ready.
    ///
    /// # Errors
    /// The device is gone.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transmitter.poll_readable(cx)
    }

    /// Reads up to `limit` packets and wakes the flows that they touched. Returns how many were
    /// read.
    ///
    /// # Errors
    /// The device is gone or broken.
    pub fn receive(&mut self, now: Instant, limit: usize, arrivals: &mut impl Arrivals) -> io::Result<usize> {
        let smoltcp_now = self.time(now);
        let (table, reassembly) = (&mut self.table, &mut self.reassembly);
        let count = self.transmitter.receive(limit, |bytes, arrived, replies| {
            let Some(header) = packet::parse(bytes) else {
                table.unusable += 1;
                return;
            };
            if let Some(fragment) = header.fragment {
                let payload = &bytes[header.payload..header.end];
                let whole = reassembly.push(now, &header, fragment, payload);
                if let Some(mut whole) = whole
                    && let Some(header) = packet::parse(&whole)
                {
                    table.take(smoltcp_now, &mut whole, &header, Arrived::PLAIN, replies, arrivals);
                }
            } else {
                table.take(smoltcp_now, bytes, &header, arrived, replies, arrivals);
            }
        })?;
        self.transmitter.flush();
        for waker in self.table.woken.drain(..) {
            waker.wake();
        }
        Ok(count)
    }

    /// Whether packets are kept because the device is full: then [`Stack::poll_flush`] must be
    /// polled, and flows be woken when it is done.
    pub fn is_blocked(&self) -> bool {
        !self.transmitter.ready()
    }

    /// Waits until the kept packets are sent, then wakes all flows.
    ///
    /// # Errors
    /// The device is gone.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.transmitter.ready() {
            return Poll::Ready(Ok(()));
        }
        std::task::ready!(self.transmitter.poll_flush(cx))?;
        for (_, entry) in &mut self.table.flows {
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The flow `id`, if it was not forgotten.
    pub fn flow(&mut self, id: FlowId, now: Instant) -> Option<Flow<'_, D>> {
        let now = self.time(now);
        let started = self.started;
        let Table { flows, unanswered, .. } = &mut self.table;
        let entry = flows.get_mut(id.0)?;
        Some(Flow { entry, unanswered, transmitter: &mut self.transmitter, now, started })
    }

    /// Removes a flow. One that is not over is reset.
    pub fn forget(&mut self, id: FlowId, now: Instant) {
        let now = self.time(now);
        let Some(mut entry) = self.table.flows.try_remove(id.0) else {
            return;
        };
        self.table.by_key.remove(&entry.tcp.key());
        if !entry.tcp.is_accepted() {
            self.table.unanswered -= 1;
        }
        if !entry.tcp.is_over() {
            entry.tcp.abort();
            if self.transmitter.ready() {
                entry.tcp.egress(now, &mut self.transmitter);
            } else {
                entry.tcp.egress(now, self.transmitter.queue());
            }
        }
    }

    /// Sends datagrams from `from` to the application at `to`, from the front of `payloads`, and
    /// returns how many were taken: none while the device is full. Several of one size go as one
    /// packet where the device can cut it. Payloads that fit no packet are dropped.
    pub fn send_udp<P: AsRef<[u8]>>(&mut self, from: SocketAddr, to: SocketAddr, payloads: &[P]) -> usize {
        if from.is_ipv4() != to.is_ipv4() {
            self.table.unusable += payloads.len() as u64;
            return payloads.len();
        }
        let capabilities = self.transmitter.capabilities();
        let mut taken = 0;
        while let Some(rest) = payloads.get(taken..)
            && !rest.is_empty()
            && self.transmitter.ready()
        {
            let sizes = rest.iter().map(|payload| payload.as_ref().len());
            let count = udp::mergeable(capabilities, to.is_ipv4(), sizes);
            let batch = &rest[..count];
            let total = batch.iter().map(|payload| payload.as_ref().len()).sum();
            let length = udp::packet_len(to, total);
            if length > crate::device::MAX_PACKET {
                self.table.unusable += count as u64;
            } else {
                self.transmitter.emit(length, |buffer| {
                    let payloads = batch.iter().map(AsRef::as_ref);
                    ((), udp::write(buffer, capabilities, from, to, payloads))
                });
            }
            taken += count;
        }
        taken
    }

    /// Tells the application at `source` why its datagram of `payload_len` bytes to `destination`
    /// goes no further.
    pub fn refuse_udp(&mut self, source: SocketAddr, destination: SocketAddr, payload_len: usize, refusal: Refusal) {
        if source.is_ipv4() == destination.is_ipv4() {
            let packet = icmp::refuse_datagram(source, destination, payload_len, refusal);
            self.transmitter.queue().push_packet(&packet, Offload::Complete);
            self.transmitter.flush();
        }
    }
}

impl Table {
    fn take(
        &mut self,
        now: smoltcp::time::Instant,
        bytes: &mut [u8],
        header: &Header,
        arrived: Arrived,
        replies: &mut Queue,
        arrivals: &mut impl Arrivals,
    ) {
        if !packet::is_unicast(header.source) || !packet::is_unicast(header.destination) {
            self.unusable += 1;
            return;
        }
        match header.protocol {
            TCP => self.take_tcp(now, &bytes[..header.end], header, replies, arrivals),
            UDP => {
                let segment = &bytes[header.payload..header.end];
                if let Some(datagrams) = udp::parse(header, segment, arrived) {
                    let FlowKey { source, destination } = datagrams.key;
                    let mut payloads = datagrams.payloads;
                    if payloads.len() == 0 {
                        arrivals.udp(source, destination, &[]);
                    }
                    for payload in &mut payloads {
                        arrivals.udp(source, destination, payload);
                    }
                } else {
                    self.unusable += 1;
                }
            }
            ICMP | ICMPV6 => {
                if icmp::answer_echo(bytes, header) {
                    replies.push_packet(&bytes[..header.end], Offload::Complete);
                }
            }
            _ => self.unusable += 1,
        }
    }

    fn take_tcp(
        &mut self,
        now: smoltcp::time::Instant,
        bytes: &[u8],
        header: &Header,
        replies: &mut Queue,
        arrivals: &mut impl Arrivals,
    ) {
        let payload = &bytes[header.payload..];
        let (Some(key), Some(segment)) = (packet::flow_key(header, payload), packet::parse_tcp(payload)) else {
            self.unusable += 1;
            return;
        };
        if let Some(&index) = self.by_key.get(&key) {
            if let Some(entry) = self.flows.get_mut(index) {
                entry.tcp.ingress(now, bytes, replies);
                self.woken.extend(entry.waker.take());
            }
            return;
        }
        if segment.rst {
            return;
        }
        if !segment.syn || segment.ack || key.destination.port() == 0 || key.source.port() == 0 {
            let length = packet::ip_header_len(header.source) + 20;
            let capabilities = self.capabilities;
            replies.emit(length, |buffer| ((), tcp::write_reset(buffer, capabilities, key, &segment)));
            return;
        }
        if self.flows.len() >= self.limits.flows || self.unanswered >= self.limits.unanswered {
            // The application's kernel sends the SYN again; by then there may be room.
            self.over_limit += 1;
            return;
        }
        let mut seed = [0; 8];
        self.random.fill(&mut seed);
        let ring = rings::capacity(self.flows.len());
        let seed = u64::from_ne_bytes(seed);
        let Some(mut tcp) = Tcp::new(now, key, segment.mss, ring, self.capabilities, seed) else {
            self.unusable += 1;
            return;
        };
        tcp.ingress(now, bytes, replies);
        let index = self.flows.insert(Box::new(Entry { tcp, waker: None }));
        self.by_key.insert(key, index);
        self.unanswered += 1;
        arrivals.tcp(FlowId(index), key.source, key.destination);
    }
}

fn time(started: Instant, now: Instant) -> smoltcp::time::Instant {
    let elapsed = now.saturating_duration_since(started);
    smoltcp::time::Instant::from_micros(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
}

/// What can be read from a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readable {
    /// Bytes lie ready.
    Data,
    /// Nothing yet.
    Nothing,
    /// The application has ended its direction, and everything before that was read.
    Finished,
    /// The flow was reset or timed out.
    Broken,
}

/// One TCP flow of a stack, borrowed for a moment.
pub struct Flow<'a, D> {
    entry: &'a mut Entry,
    unanswered: &'a mut usize,
    transmitter: &'a mut Transmitter<D>,
    now: smoltcp::time::Instant,
    started: Instant,
}

impl<D: Device> Flow<'_, D> {
    /// Has `waker` woken (once) when a packet of this flow arrives or a full device has room.
    pub fn register(&mut self, waker: &Waker) {
        match &self.entry.waker {
            Some(known) if known.will_wake(waker) => {}
            _ => self.entry.waker = Some(waker.clone()),
        }
    }

    /// Answers the SYN; [`Flow::egress`] sends the answer.
    pub fn accept(&mut self) {
        self.answered();
        self.entry.tcp.accept();
    }

    fn answered(&mut self) {
        if !self.entry.tcp.is_accepted() {
            *self.unanswered -= 1;
        }
    }

    /// What can be read.
    pub fn readable(&mut self) -> Readable {
        match self.entry.tcp.inbound() {
            Inbound::Data => Readable::Data,
            Inbound::Nothing => Readable::Nothing,
            Inbound::Finished => Readable::Finished,
            Inbound::Broken => Readable::Broken,
        }
    }

    /// Gives the bytes that lie ready, in one piece, to `take`, which says how many it took.
    /// `None` when nothing can be read any more.
    pub fn read<R>(&mut self, take: impl FnOnce(&[u8]) -> (usize, R)) -> Option<R> {
        self.entry.tcp.read(take)
    }

    /// Bytes that can be written now (they may lie in two pieces); `None` when the direction to the
    /// application has ended.
    pub fn room(&self) -> Option<usize> {
        self.entry.tcp.room()
    }

    /// Bytes that one direction can hold.
    pub fn capacity(&self) -> usize {
        self.entry.tcp.capacity()
    }

    /// Lends a contiguous free place to `put`, which says how many bytes it put there. `None` when
    /// nothing can be written any more.
    pub fn write<R>(&mut self, put: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        self.entry.tcp.write(put)
    }

    /// Ends the direction to the application.
    pub fn finish(&mut self) {
        self.entry.tcp.finish();
    }

    /// Resets the flow; [`Flow::egress`] sends the reset.
    pub fn abort(&mut self) {
        self.answered();
        self.entry.tcp.abort();
    }

    /// Sends what may be sent now: data, acknowledgements, window updates, resets.
    pub fn egress(&mut self) {
        self.entry.tcp.egress(self.now, self.transmitter);
    }

    /// Whether the flow can be forgotten.
    pub fn is_over(&self) -> bool {
        self.entry.tcp.is_over()
    }

    /// When [`Flow::egress`] must be called again, if nothing else happens before. None while the
    /// device is full: then the waker is woken.
    pub fn deadline(&mut self) -> Option<Instant> {
        if !self.transmitter.ready() {
            return None;
        }
        let at = self.entry.tcp.deadline(self.now)?;
        // Never in the past: what could be sent at once was, and a clock tick must pass.
        let micros = (at.total_micros()).max(self.now.total_micros() + 1_000);
        Some(self.started + Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests;
