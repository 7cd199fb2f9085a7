//! One TCP flow: a smoltcp interface with a single socket, so that a packet costs the same however
//! many flows there are, and the adapter between smoltcp's device and ours.

use std::num::NonZeroUsize;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpListenEndpoint};

use crate::checksum;
use crate::device::{Capabilities, MAX_PACKET};
use crate::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};
use crate::packet::{self, FlowKey, TCP};
use crate::transmit::Sink;

/// An application's host that has answered nothing for this long is gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(15 * 60);
const KEEP_ALIVE: Duration = Duration::from_secs(5 * 60);
/// The least segment size taken from a SYN, as Linux's TCP_MIN_SND_MSS.
const MIN_MSS: u16 = 48;

/// One TCP flow.
pub(crate) struct Tcp {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    capabilities: DeviceCapabilities,
    mss: u16,
    key: FlowKey,
    held: bool,
}

/// What can be read from a flow.
pub(crate) enum Inbound {
    /// Bytes lie ready.
    Data,
    /// Nothing yet.
    Nothing,
    /// The application has sent its FIN and everything before it was read.
    Finished,
    /// The flow was reset or timed out.
    Broken,
}

impl Tcp {
    /// A flow for the SYN of `key`. The SYN-ACK is held back until [`Tcp::accept`].
    pub(crate) fn new(
        now: Instant,
        key: FlowKey,
        mss: u16,
        ring: usize,
        device: Capabilities,
        seed: u64,
    ) -> Option<Self> {
        let mss = mss.max(MIN_MSS);
        let capabilities = capabilities(device, key, mss);
        let mut config = Config::new(HardwareAddress::Ip);
        // smoltcp draws its initial sequence number from this seed, and each flow has its own.
        config.random_seed = seed;
        let mut port: Port<'_, crate::transmit::Queue> =
            Port { packet: None, sink: None, capabilities: &capabilities, mss };
        let mut interface = Interface::new(config, &mut port, now);
        let local = key.destination.ip();
        interface.update_ip_addrs(|addresses| {
            let prefix = if local.is_ipv4() { 32 } else { 128 };
            // The list of a new interface is empty.
            let _ = addresses.push(IpCidr::new(local.into(), prefix));
        });
        let mut socket = Socket::new(SocketBuffer::new(vec![0; ring]), SocketBuffer::new(vec![0; ring]));
        socket.set_ack_delay(None);
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::None);
        socket.set_timeout(Some(SILENCE_LIMIT.into()));
        socket.set_keep_alive(Some(KEEP_ALIVE.into()));
        socket.pause_synack(true);
        let endpoint = IpListenEndpoint { addr: Some(local.into()), port: key.destination.port() };
        socket.listen(endpoint).ok()?;
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Some(Self { interface, sockets, handle, capabilities, mss, key, held: true })
    }

    pub(crate) fn key(&self) -> FlowKey {
        self.key
    }

    fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.handle)
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Takes a packet of this flow. Immediate replies go to `sink`.
    pub(crate) fn ingress(&mut self, now: Instant, packet: &[u8], sink: &mut impl Sink) {
        let mut port = Port { packet: Some(packet), sink: Some(sink), capabilities: &self.capabilities, mss: self.mss };
        self.interface.poll_ingress_single(now, &mut port, &mut self.sockets);
    }

    /// Sends what may be sent now.
    pub(crate) fn egress(&mut self, now: Instant, sink: &mut impl Sink) {
        let mut port = Port { packet: None, sink: Some(sink), capabilities: &self.capabilities, mss: self.mss };
        while self.interface.poll_egress(now, &mut port, &mut self.sockets) == PollResult::SocketStateChanged {}
    }

    /// When [`Tcp::egress`] has something to do next, if nothing arrives before.
    pub(crate) fn deadline(&mut self, now: Instant) -> Option<Instant> {
        if self.held {
            return None;
        }
        self.interface.poll_at(now, &self.sockets)
    }

    /// Answers the SYN.
    pub(crate) fn accept(&mut self) {
        self.held = false;
        self.socket_mut().pause_synack(false);
    }

    /// Whether the SYN was answered.
    pub(crate) fn is_accepted(&self) -> bool {
        !self.held
    }

    /// What can be read.
    pub(crate) fn inbound(&mut self) -> Inbound {
        let socket = self.socket_mut();
        match socket.state() {
            // A reset in SynReceived takes the socket back to listening.
            State::Listen => return Inbound::Broken,
            State::SynReceived | State::SynSent => return Inbound::Nothing,
            State::Closed
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait => {}
        }
        match socket.peek(1) {
            Ok([]) => Inbound::Nothing,
            Ok(_) => Inbound::Data,
            Err(RecvError::Finished) => Inbound::Finished,
            Err(RecvError::InvalidState) => Inbound::Broken,
        }
    }

    /// Gives the bytes that lie ready in one piece to `take`, which says how many it took.
    pub(crate) fn read<R>(&mut self, take: impl FnOnce(&[u8]) -> (usize, R)) -> Option<R> {
        self.socket_mut().recv(|bytes| take(bytes)).ok()
    }

    /// Bytes that can be written now; `None` when nothing can be written any more.
    pub(crate) fn room(&self) -> Option<usize> {
        let socket = self.socket();
        match socket.state() {
            State::Established | State::CloseWait => Some(socket.send_capacity() - socket.send_queue()),
            State::SynReceived => Some(0),
            State::Closed
            | State::Listen
            | State::SynSent
            | State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck
            | State::TimeWait => None,
        }
    }

    /// Bytes that one direction can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.socket().send_capacity()
    }

    /// Lends a contiguous free part of the ring to `put`, which says how many bytes it put there.
    pub(crate) fn write<R>(&mut self, put: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        self.socket_mut().send(put).ok()
    }

    /// Ends the direction to the application (FIN after what was written).
    pub(crate) fn finish(&mut self) {
        self.socket_mut().close();
    }

    /// Resets the flow; [`Tcp::egress`] sends the RST.
    pub(crate) fn abort(&mut self) {
        self.held = false;
        let socket = self.socket_mut();
        socket.pause_synack(false);
        socket.abort();
    }

    /// Whether both directions have ended (nothing is left that must be sent), so that the flow can
    /// be forgotten. Waiting out TIME-WAIT would hold the rings for nothing: the path to the
    /// application is local and loses nothing.
    pub(crate) fn is_over(&self) -> bool {
        let socket = self.socket();
        match socket.state() {
            State::TimeWait | State::Listen => true,
            // With an end point set a reset is still to be sent.
            State::Closed => socket.remote_endpoint().is_none(),
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => false,
        }
    }
}

/// Builds the reset that answers `segment` of `key` (RFC 9293, 3.10.7.1), a segment of no flow.
pub(crate) fn write_reset(
    buffer: &mut [u8],
    device: Capabilities,
    key: FlowKey,
    segment: &packet::TcpHeader,
) -> Offload {
    let (from, to) = (key.destination, key.source);
    let ip_len = packet::write_ip(buffer, from.ip(), to.ip(), TCP, 20);
    let reply = &mut buffer[ip_len..];
    reply.fill(0);
    reply[0..2].copy_from_slice(&from.port().to_be_bytes());
    reply[2..4].copy_from_slice(&to.port().to_be_bytes());
    reply[12] = 5 << 4;
    if segment.ack {
        reply[4..8].copy_from_slice(&segment.acknowledgement.to_be_bytes());
        reply[13] = 0b0000_0100;
    } else {
        let length = segment.payload_len as u32 + u32::from(segment.syn) + u32::from(segment.fin);
        let acknowledgement = segment.sequence.wrapping_add(length);
        reply[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
        reply[13] = 0b0001_0100;
    }
    if device.checksum {
        let sum = checksum::partial(from.ip(), to.ip(), TCP, 20);
        reply[16..18].copy_from_slice(&sum.to_be_bytes());
        Offload::Checksum(PartialChecksum { start: ip_len as u16, field: 16 })
    } else {
        let sum = checksum::transport(from.ip(), to.ip(), TCP, reply);
        reply[16..18].copy_from_slice(&sum.to_be_bytes());
        Offload::Complete
    }
}

fn capabilities(device: Capabilities, key: FlowKey, mss: u16) -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ip;
    // Not the device's MTU: segments are bounded by the SYN's MSS or cut by the device, and smoltcp
    // drops IPv6 packets above its MTU even when the device is to cut them.
    capabilities.max_transmission_unit = MAX_PACKET;
    capabilities.checksum.ipv4 = Checksum::Tx;
    capabilities.checksum.tcp = if device.checksum { Checksum::None } else { Checksum::Tx };
    if device.tcp_segmentation {
        let headers = packet::ip_header_len(key.destination.ip()) + 20;
        let segments = ((MAX_PACKET - headers) / usize::from(mss)).max(1);
        // A whole number of segments: the application's kernel then sees no odd short one.
        let largest = NonZeroUsize::new(headers + segments * usize::from(mss));
        capabilities.segmentation.tcpv4 = largest;
        capabilities.segmentation.tcpv6 = largest;
    }
    capabilities
}

/// smoltcp's view of the device for one call.
struct Port<'a, S> {
    packet: Option<&'a [u8]>,
    sink: Option<&'a mut S>,
    capabilities: &'a DeviceCapabilities,
    mss: u16,
}

struct Receive<'a>(&'a [u8]);

struct Transmit<'a, S> {
    sink: &'a mut S,
    checksum: bool,
    mss: u16,
}

impl<S: Sink> phy::Device for Port<'_, S> {
    type RxToken<'a>
        = Receive<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Transmit<'a, S>
    where
        Self: 'a;

    fn receive(&mut self, timestamp: Instant) -> Option<(Receive<'_>, Transmit<'_, S>)> {
        let packet = self.packet.take()?;
        Some((Receive(packet), self.transmit(timestamp)?))
    }

    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_, S>> {
        let checksum = !self.capabilities.checksum.tcp.tx();
        let sink = self.sink.as_deref_mut().filter(|sink| sink.ready())?;
        Some(Transmit { sink, checksum, mss: self.mss })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

impl phy::RxToken for Receive<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

impl<S: Sink> phy::TxToken for Transmit<'_, S> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let (checksum, mss) = (self.checksum, self.mss);
        self.sink.emit(length, |buffer| {
            let result = fill(buffer);
            let offload = if checksum { leave_to_device(buffer, mss) } else { Offload::Complete };
            (result, offload)
        })
    }
}

/// Puts the pseudo-header's sum into a TCP packet that smoltcp wrote without a checksum, and says
/// what is left to do.
fn leave_to_device(buffer: &mut [u8], mss: u16) -> Offload {
    let Some(header) = packet::parse(buffer) else {
        return Offload::Complete;
    };
    let Some(segment) = buffer.get_mut(header.payload..header.end) else {
        return Offload::Complete;
    };
    if header.protocol != TCP || segment.len() < 20 {
        return Offload::Complete;
    }
    let sum = checksum::partial(header.source, header.destination, TCP, segment.len());
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let tcp_len = usize::from(segment[12] >> 4) * 4;
    let checksum = PartialChecksum { start: header.payload as u16, field: 16 };
    // Not smoltcp's own hint: it passes none for IPv6.
    if segment.len() - tcp_len <= usize::from(mss) {
        return Offload::Checksum(checksum);
    }
    let kind = if header.source.is_ipv4() { SegmentKind::Tcp4 } else { SegmentKind::Tcp6 };
    let header_len = (header.payload + tcp_len) as u16;
    Offload::Segment(checksum, Segmentation { kind, size: mss, header_len })
}
