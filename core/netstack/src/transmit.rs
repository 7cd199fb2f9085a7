//! The way out: packets are made in one scratch buffer and written at once; what the device can't
//! take is kept, and producers wait.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

use crate::device::{Capabilities, Device, HEADROOM, MAX_PACKET};
use crate::offload::{Arrived, Offload};

/// Packets that may be kept while the device is full. Replies made while packets are read (resets,
/// duplicate acknowledgements, ICMP) come on top of what TCP flows send, and those stop at the
/// first kept packet.
const MAX_KEPT: usize = 256;

/// Where packets go.
pub(crate) trait Sink {
    /// Whether a packet may be made now.
    fn ready(&self) -> bool;

    /// Makes a packet of `length` bytes with `fill` and sends it.
    fn emit<R>(&mut self, length: usize, fill: impl FnOnce(&mut [u8]) -> (R, Offload)) -> R;
}

struct Kept {
    buffer: Vec<u8>,
    offload: Offload,
}

/// Packets that wait for the device.
#[derive(Default)]
pub(crate) struct Queue {
    packets: VecDeque<Kept>,
    dropped: u64,
}

impl Queue {
    fn push(&mut self, buffer: Vec<u8>, offload: Offload) {
        if self.packets.len() < MAX_KEPT {
            self.packets.push_back(Kept { buffer, offload });
        } else {
            self.dropped += 1;
        }
    }

    /// Queues a packet that lies in `packet` without headroom.
    pub(crate) fn push_packet(&mut self, packet: &[u8], offload: Offload) {
        let mut buffer = Vec::with_capacity(HEADROOM + packet.len());
        buffer.resize(HEADROOM, 0);
        buffer.extend_from_slice(packet);
        self.push(buffer, offload);
    }
}

/// Replies made while the device is being read.
impl Sink for Queue {
    fn ready(&self) -> bool {
        true
    }

    fn emit<R>(&mut self, length: usize, fill: impl FnOnce(&mut [u8]) -> (R, Offload)) -> R {
        let mut buffer = vec![0; HEADROOM + length];
        let (result, offload) = fill(&mut buffer[HEADROOM..]);
        self.push(buffer, offload);
        result
    }
}

/// The device and its way out.
pub(crate) struct Transmitter<D> {
    device: D,
    capabilities: Capabilities,
    scratch: Box<[u8]>,
    queue: Queue,
    refused: u64,
    last_refusal: Option<io::Error>,
}

impl<D: Device> Transmitter<D> {
    pub(crate) fn new(device: D) -> Self {
        Self {
            capabilities: device.capabilities(),
            device,
            scratch: vec![0; HEADROOM + MAX_PACKET].into_boxed_slice(),
            queue: Queue::default(),
            refused: 0,
            last_refusal: None,
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Packets lost because too many waited, and packets that the device refused.
    pub(crate) fn losses(&self) -> (u64, u64) {
        (self.queue.dropped, self.refused)
    }

    /// The last refusal since this was asked before.
    pub(crate) fn take_refusal(&mut self) -> Option<io::Error> {
        self.last_refusal.take()
    }

    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.device.poll_readable(cx)
    }

    /// Reads packets; replies go through the queue.
    pub(crate) fn receive(
        &mut self,
        limit: usize,
        mut each: impl FnMut(&mut [u8], Arrived, &mut Queue),
    ) -> io::Result<usize> {
        let queue = &mut self.queue;
        self.device.receive(limit, &mut |packet, arrived| each(packet, arrived, queue))
    }

    /// Sends what is kept as far as the device takes it now; true when nothing is left.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some(kept) = self.queue.packets.front_mut() {
            match self.device.send(&mut kept.buffer, kept.offload) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    self.refused += 1;
                    self.last_refusal = Some(error);
                }
            }
            self.queue.packets.pop_front();
        }
        true
    }

    /// Waits until everything that is kept has been sent.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.flush() {
            ready!(self.device.poll_writable(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }
}

impl<D: Device> Sink for Transmitter<D> {
    fn ready(&self) -> bool {
        self.queue.packets.is_empty()
    }

    fn emit<R>(&mut self, length: usize, fill: impl FnOnce(&mut [u8]) -> (R, Offload)) -> R {
        let buffer = &mut self.scratch[..HEADROOM + length];
        let (result, offload) = fill(&mut buffer[HEADROOM..]);
        if !self.queue.packets.is_empty() {
            let buffer = buffer.to_vec();
            self.queue.push(buffer, offload);
            return result;
        }
        match self.device.send(buffer, offload) {
            Ok(true) => {}
            Ok(false) => {
                let buffer = buffer.to_vec();
                self.queue.push(buffer, offload);
            }
            Err(error) => {
                self.refused += 1;
                self.last_refusal = Some(error);
            }
        }
        result
    }
}
