//! A queue of a Linux TUN device, opened elsewhere (in-process or by the helper).

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Capabilities, Device, HEADROOM, MAX_PACKET};
use crate::offload::{self, Arrived, HEADER_LEN, Offload};

const _: () = assert!(HEADROOM >= HEADER_LEN);

/// One queue. Reads and writes one packet a system call; with offloads a packet is up to 64 KiB of
/// one flow.
pub struct TunQueue {
    descriptor: AsyncFd<OwnedFd>,
    capabilities: Capabilities,
    vnet_header: bool,
    buffer: Box<[u8]>,
}

impl TunQueue {
    /// Takes a non-blocking TUN descriptor (no packet information header). `vnet_header` says
    /// whether each packet has the ten-byte virtio-net header; without it `capabilities` must be
    /// plain. Must be called inside a tokio runtime with I/O.
    ///
    /// # Errors
    /// The descriptor can't be registered with the runtime.
    pub fn new(descriptor: OwnedFd, vnet_header: bool, capabilities: Capabilities) -> io::Result<Self> {
        let capabilities = if vnet_header { capabilities } else { Capabilities::plain(capabilities.mtu) };
        Ok(Self {
            descriptor: register(descriptor)?,
            capabilities,
            vnet_header,
            buffer: vec![0; HEADER_LEN + MAX_PACKET].into_boxed_slice(),
        })
    }
}

fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is a valid open descriptor and stays the same one as long as it lives, and
    // nothing here takes it out of the AsyncFd or closes it before that is dropped.
    let registered = unsafe { AsyncFd::register(descriptor) };
    Ok(registered?)
}

impl Device for TunQueue {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(&mut [u8], Arrived)) -> io::Result<usize> {
        let header_len = if self.vnet_header { HEADER_LEN } else { 0 };
        for count in 0..limit {
            let buffer = &mut self.buffer;
            let read = self.descriptor.try_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut buffer[..])?));
            let length = match read {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let Some((header, packet)) = self.buffer[..length].split_at_mut_checked(header_len) else {
                continue;
            };
            let arrived = match <[u8; HEADER_LEN]>::try_from(&*header) {
                Ok(header) => offload::decode(header),
                Err(_) => Some(Arrived::PLAIN),
            };
            if let Some(arrived) = arrived {
                each(packet, arrived);
            }
        }
        Ok(limit)
    }

    fn send(&mut self, buffer: &mut [u8], offload: Offload) -> io::Result<bool> {
        let from = if self.vnet_header {
            let from = HEADROOM - HEADER_LEN;
            buffer[from..HEADROOM].copy_from_slice(&offload::encode(offload));
            from
        } else {
            HEADROOM
        };
        let sent = self.descriptor.try_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, &buffer[from..])?));
        match sent {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.descriptor.poll_read_ready(cx))?.retain_ready();
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.descriptor.poll_write_ready(cx))?.retain_ready();
        Poll::Ready(Ok(()))
    }
}
