//! The ioctls of TUN devices and network interfaces. All `unsafe` of the TUN device is here.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::{TunError, TunOffloads, terminated};

// linux/if_tun.h
const TUN_F_CSUM: u32 = 0x01;
const TUN_F_TSO4: u32 = 0x02;
const TUN_F_TSO6: u32 = 0x04;
const TUN_F_USO4: u32 = 0x20;
const TUN_F_USO6: u32 = 0x40;
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOWNER: libc::Ioctl = 0x4004_54cc;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUNSETVNETHDRSZ: libc::Ioctl = 0x4004_54d8;
/// The legacy virtio-net header.
const HEADER_SIZE: i32 = 10;

/// An `ifreq` for one interface.
pub(super) struct InterfaceRequest(libc::ifreq);

impl InterfaceRequest {
    pub(super) fn new(name: &str) -> Result<Self, TunError> {
        let name = terminated(name)?;
        // SAFETY: ifreq is a plain C structure of integers and arrays: all zeroes is a value of it.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let bytes = name.as_bytes_with_nul();
        if bytes.len() > request.ifr_name.len() {
            return Err(TunError::Option("its name is longer than 15 bytes"));
        }
        for (place, byte) in request.ifr_name.iter_mut().zip(bytes) {
            *place = *byte as libc::c_char;
        }
        Ok(Self(request))
    }

    /// The name, as the kernel completed it.
    pub(super) fn name(&self) -> String {
        let bytes = self.0.ifr_name.iter().map(|byte| *byte as u8);
        String::from_utf8_lossy(&bytes.take_while(|byte| *byte != 0).collect::<Vec<_>>()).into_owned()
    }

    /// Creates the device, or adds a queue to it.
    pub(super) fn attach(&mut self, queue: BorrowedFd<'_>, multi_queue: bool) -> io::Result<()> {
        let mut flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        if multi_queue {
            flags |= libc::IFF_MULTI_QUEUE;
        }
        self.0.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq, which is borrowed mutably for the call.
        check(unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETIFF, &raw mut self.0) })
    }
}

/// Sets the size of the header in front of each packet.
pub(super) fn set_header_size(queue: BorrowedFd<'_>) -> io::Result<()> {
    let size = HEADER_SIZE;
    // SAFETY: TUNSETVNETHDRSZ reads one int.
    check(unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETVNETHDRSZ, &raw const size) })
}

/// Asks for offloads; fails when the kernel does not know one of them.
pub(super) fn set_offloads(queue: BorrowedFd<'_>, offloads: TunOffloads) -> io::Result<()> {
    let mut bits = 0;
    if offloads.checksum {
        bits |= TUN_F_CSUM;
    }
    if offloads.tcp_segmentation {
        bits |= TUN_F_TSO4 | TUN_F_TSO6;
    }
    if offloads.udp_segmentation {
        bits |= TUN_F_USO4 | TUN_F_USO6;
    }
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    check(unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETOFFLOAD, libc::c_ulong::from(bits)) })
}

/// Lets only `owner` (and root) attach queues.
pub(super) fn set_owner(queue: BorrowedFd<'_>, owner: u32) -> io::Result<()> {
    // SAFETY: TUNSETOWNER takes its argument by value.
    check(unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETOWNER, libc::c_ulong::from(owner)) })
}

/// `in6_ifreq` of linux/ipv6.h.
#[repr(C)]
struct AddressRequest6 {
    address: [u8; 16],
    prefix_len: u32,
    index: i32,
}

/// Sockets through which interfaces are set up.
pub(super) struct Control {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

impl Control {
    pub(super) fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let v4 = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        let v6 = socket_with(AddressFamily::INET6, SocketType::DGRAM, flags, None).ok();
        Ok(Self { v4, v6 })
    }

    fn call(&self, request: libc::Ioctl, interface: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: each request used here reads or writes one ifreq, borrowed mutably for the call.
        check(unsafe { libc::ioctl(self.v4.as_raw_fd(), request, &raw mut *interface) })
    }

    pub(super) fn index(&self, interface: &InterfaceRequest) -> io::Result<u32> {
        let mut request = interface.0;
        self.call(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled this member of the union.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        u32::try_from(index).map_err(io::Error::other)
    }

    pub(super) fn set_mtu(&self, interface: &InterfaceRequest, mtu: i32) -> io::Result<()> {
        let mut request = interface.0;
        request.ifr_ifru.ifru_mtu = mtu;
        self.call(libc::SIOCSIFMTU, &mut request)
    }

    pub(super) fn set_queue_length(&self, interface: &InterfaceRequest, length: i32) -> io::Result<()> {
        let mut request = interface.0;
        // The kernel takes the queue length from the integer at the start of the union, where the
        // metric lies too.
        request.ifr_ifru.ifru_metric = length;
        self.call(libc::SIOCSIFTXQLEN, &mut request)
    }

    pub(super) fn bring_up(&self, interface: &InterfaceRequest) -> io::Result<()> {
        let mut request = interface.0;
        self.call(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled this member of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        self.call(libc::SIOCSIFFLAGS, &mut request)
    }

    /// Sets the interface's first IPv4 address (a further call replaces it).
    pub(super) fn add_v4(&self, interface: &InterfaceRequest, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut request = interface.0;
        request.ifr_ifru.ifru_addr = socket_address(address);
        self.call(libc::SIOCSIFADDR, &mut request)?;
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        request.ifr_ifru.ifru_netmask = socket_address(Ipv4Addr::from(mask));
        self.call(libc::SIOCSIFNETMASK, &mut request)
    }

    pub(super) fn add_v6(&self, index: u32, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
        let Some(socket) = &self.v6 else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no IPv6"));
        };
        let request = AddressRequest6 {
            address: address.octets(),
            prefix_len: u32::from(prefix),
            index: i32::try_from(index).map_err(io::Error::other)?,
        };
        // SAFETY: on an IPv6 socket SIOCSIFADDR reads one in6_ifreq, whose layout this type has.
        check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFADDR, &raw const request) })
    }
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (place, byte) in data[2..6].iter_mut().zip(address.octets()) {
        *place = byte as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
