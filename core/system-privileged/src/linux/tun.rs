//! Opening a TUN device: its queues, the offloads that the kernel grants, its size and addresses.

mod request;

use std::ffi::CString;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use request::InterfaceRequest;

/// Room in front of the device for packets of applications. The default of 500 drops packets when
/// many flows send at once, and a dropped segment costs a second.
const QUEUE_LENGTH: i32 = 10_000;

/// What device to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunOptions {
    /// The device's name, 1 to 15 bytes; `%d` in it is replaced by a free number.
    pub name: String,
    /// The MTU in bytes, 1280 to 65535.
    pub mtu: u16,
    /// Queues, one for each shard, 1 to 256.
    pub queues: u16,
    /// Addresses of the device with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The user who may use the device's queues (`TUNSETOWNER`). Must be set when the queues are
    /// handed over: without an owner any user can attach a queue of his own.
    pub owner: Option<u32>,
}

/// What the kernel takes over. Asked for in full, then in steps that older kernels grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunOffloads {
    /// Packets have the ten-byte virtio-net header, and checksums may be left to the kernel.
    pub checksum: bool,
    /// TCP segmentation, IPv4 and IPv6 (both ways).
    pub tcp_segmentation: bool,
    /// UDP segmentation (both ways); Linux 6.2 and later.
    pub udp_segmentation: bool,
}

/// An open device. It goes away when its last queue is closed.
#[derive(Debug)]
pub struct TunDevice {
    /// Its name.
    pub name: String,
    /// Its interface index.
    pub index: u32,
    /// Its MTU.
    pub mtu: u16,
    /// Its queues: non-blocking, closed on exec.
    pub queues: Vec<OwnedFd>,
    /// What the kernel takes over, the same for each queue.
    pub offloads: TunOffloads,
}

/// Why a device can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// An option is out of range.
    #[error("the TUN device can't be made: {0}")]
    Option(&'static str),
    /// The kernel refuses a step.
    #[error("the TUN device {name}: {step} failed: {source}")]
    Step {
        /// The device's name.
        name: String,
        /// What was tried.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl TunDevice {
    /// Opens a device, gives it its addresses and brings it up. Needs CAP_NET_ADMIN. Routes are
    /// not touched, but for those that follow from the addresses.
    ///
    /// # Errors
    /// A bad option, no permission, or a step that the kernel refuses; then nothing is left.
    pub fn open(options: &TunOptions) -> Result<Self, TunError> {
        check(options)?;
        let multi_queue = options.queues > 1;
        let mut name = options.name.clone();
        let mut queues = Vec::with_capacity(usize::from(options.queues));
        let mut offloads = None;
        for _ in 0..options.queues {
            let queue = step(&name, "opening /dev/net/tun", || {
                let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
                Ok(rustix::fs::open("/dev/net/tun", flags, Mode::empty())?)
            })?;
            let mut request = InterfaceRequest::new(&name)?;
            step(&name, "creating the device (this needs CAP_NET_ADMIN)", || {
                request.attach(queue.as_fd(), multi_queue)
            })?;
            name = request.name();
            step(&name, "setting its header size", || request::set_header_size(queue.as_fd()))?;
            let granted = match offloads {
                None => grant(queue.as_fd()),
                Some(known) => {
                    step(&name, "setting the offloads of a further queue", || {
                        request::set_offloads(queue.as_fd(), known)
                    })?;
                    known
                }
            };
            offloads = Some(granted);
            if let Some(owner) = options.owner {
                step(&name, "setting its owner", || request::set_owner(queue.as_fd(), owner))?;
            }
            queues.push(queue);
        }
        let offloads = offloads.ok_or(TunError::Option("it needs at least one queue"))?;
        let index = set_up(&name, options)?;
        Ok(Self { name, index, mtu: options.mtu, queues, offloads })
    }
}

fn check(options: &TunOptions) -> Result<(), TunError> {
    if options.name.is_empty() || options.name.len() > 15 || options.name.contains(['/', '\0', ' ']) {
        return Err(TunError::Option("its name must have 1 to 15 bytes without spaces or slashes"));
    }
    if options.mtu < 1280 {
        return Err(TunError::Option("IPv6 needs an MTU of 1280 or more"));
    }
    if options.queues == 0 || options.queues > 256 {
        return Err(TunError::Option("it can have 1 to 256 queues"));
    }
    let fits = |(address, prefix): &(IpAddr, u8)| match address {
        IpAddr::V4(_) => *prefix <= 32,
        IpAddr::V6(_) => *prefix <= 128,
    };
    if !options.addresses.iter().all(fits) {
        return Err(TunError::Option("a prefix length is larger than its address"));
    }
    Ok(())
}

/// Asks for all offloads, then for fewer.
fn grant(queue: std::os::fd::BorrowedFd<'_>) -> TunOffloads {
    let all = TunOffloads { checksum: true, tcp_segmentation: true, udp_segmentation: true };
    let steps = [
        all,
        TunOffloads { udp_segmentation: false, ..all },
        TunOffloads { udp_segmentation: false, tcp_segmentation: false, ..all },
    ];
    let none = TunOffloads { checksum: false, tcp_segmentation: false, udp_segmentation: false };
    steps.into_iter().find(|offloads| request::set_offloads(queue, *offloads).is_ok()).unwrap_or(none)
}

fn set_up(name: &str, options: &TunOptions) -> Result<u32, TunError> {
    let control = request::Control::open().map_err(|source| TunError::Step {
        name: name.to_owned(),
        step: "opening a control socket",
        source,
    })?;
    let request = InterfaceRequest::new(name)?;
    let index = step(name, "asking for its index", || control.index(&request))?;
    step(name, "setting its MTU", || control.set_mtu(&request, i32::from(options.mtu)))?;
    step(name, "setting its queue length", || control.set_queue_length(&request, QUEUE_LENGTH))?;
    for (address, prefix) in &options.addresses {
        match address {
            IpAddr::V4(address) => {
                step(name, "setting its IPv4 address", || control.add_v4(&request, *address, *prefix))?
            }
            IpAddr::V6(address) => step(name, "setting its IPv6 address", || control.add_v6(index, *address, *prefix))?,
        }
    }
    step(name, "bringing it up", || control.bring_up(&request))?;
    Ok(index)
}

fn step<T>(name: &str, step: &'static str, act: impl FnOnce() -> io::Result<T>) -> Result<T, TunError> {
    act().map_err(|source| TunError::Step { name: name.to_owned(), step, source })
}

/// A device's name as the kernel takes it.
fn terminated(name: &str) -> Result<CString, TunError> {
    CString::new(name).map_err(|_| TunError::Option("its name holds a zero byte"))
}
