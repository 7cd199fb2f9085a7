//! The device under the stack: packets in and out, in batches, with what the other side may leave
//! undone (checksums, segmentation). Not a descriptor, so that rings in shared memory fit as well.

use std::io;
use std::task::{Context, Poll};

use crate::offload::{Arrived, Offload};

#[cfg(target_os = "linux")]
pub mod linux;

/// Bytes that lie free in front of each packet given to [`Device::send`], for the device's own
/// header.
pub const HEADROOM: usize = 16;

/// The largest packet in either direction, in bytes, IP header included.
pub const MAX_PACKET: usize = 65_535;

/// What a device takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The device's MTU in bytes; packets with segmentation may be larger.
    pub mtu: usize,
    /// It completes TCP and UDP checksums.
    pub checksum: bool,
    /// It cuts TCP packets into segments, for IPv4 and IPv6. Needs `checksum`.
    pub tcp_segmentation: bool,
    /// It cuts UDP packets into datagrams, for IPv4 and IPv6. Needs `checksum`.
    pub udp_segmentation: bool,
}

impl Capabilities {
    /// A device that only moves whole packets of at most `mtu` bytes.
    pub const fn plain(mtu: usize) -> Self {
        Self { mtu, checksum: false, tcp_segmentation: false, udp_segmentation: false }
    }
}

/// One queue of packets, used by one shard.
pub trait Device {
    /// What the device takes over. Fixed for its life.
    fn capabilities(&self) -> Capabilities;

    /// Gives up to `limit` packets that lie ready to `each`, in order, and returns how many; zero
    /// means that none lies ready. The bytes may be changed in place.
    ///
    /// # Errors
    /// The device is gone or broken; the shard ends.
    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(&mut [u8], Arrived)) -> io::Result<usize>;

    /// Sends the packet that begins [`HEADROOM`] bytes into `buffer`. `Ok(false)` means that the
    /// device is full: the packet was not taken and must be offered again.
    ///
    /// # Errors
    /// The device refuses this packet; the next may pass.
    fn send(&mut self, buffer: &mut [u8], offload: Offload) -> io::Result<bool>;

    /// Waits until packets may lie ready.
    ///
    /// # Errors
    /// The device is gone.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Waits until a full device may have room again.
    ///
    /// # Errors
    /// The device is gone.
    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(&mut [u8], Arrived)) -> io::Result<usize> {
        (**self).receive(limit, each)
    }

    fn send(&mut self, buffer: &mut [u8], offload: Offload) -> io::Result<bool> {
        (**self).send(buffer, offload)
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_readable(cx)
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_writable(cx)
    }
}
