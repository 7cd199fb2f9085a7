//! The kernel's netlink sockets: requests with acknowledgement, dumps, attributes. Only what
//! routing and the firewall need.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

// linux/netlink.h
const HEADER: usize = 16;
const REQUEST: u16 = 0x01;
const ACKNOWLEDGE: u16 = 0x04;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NESTED: u16 = 0x8000;
const KIND_MASK: u16 = 0x3fff;
/// Creates what is not there.
pub(super) const CREATE: u16 = 0x400;
/// Fails when it is already there.
pub(super) const EXCLUSIVE: u16 = 0x200;
/// The most that the kernel puts into one answer of a dump.
const ANSWER: usize = 64 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

/// A list of attributes being written, after whatever fixed header stands before it.
#[derive(Debug, Clone, Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn with_header(header: &[u8]) -> Self {
        let mut bytes = header.to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn put_u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// The firewall's numbers are in network order.
    pub(super) fn put_u32_be(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_be_bytes())
    }

    pub(super) fn put_text(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes)
    }

    pub(super) fn nest(&mut self, kind: u16, write: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        write(&mut inner);
        self.put(kind | NESTED, &inner.0)
    }
}

/// The attributes in `bytes`; stops at the first that does not fit.
pub(super) fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some((length, kind)) = u16_at(bytes, 0).zip(u16_at(bytes, 2)) {
        let length = usize::from(length);
        let Some(value) = bytes.get(4..length) else {
            break;
        };
        found.push((kind & KIND_MASK, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    found
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A socket to one part of the kernel, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Interfaces, addresses, routes, rules.
    pub(super) fn route() -> io::Result<Self> {
        Self::open(None)
    }

    /// The firewall.
    pub(super) fn netfilter() -> io::Result<Self> {
        Self::open(Some(rustix::net::netlink::NETFILTER))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { socket, sequence: 0 })
    }

    fn message(&mut self, kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        self.sequence = self.sequence.wrapping_add(1);
        let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
        let mut message = Vec::with_capacity(HEADER + body.len() + 3);
        message.extend_from_slice(&length.to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        message.extend_from_slice(&self.sequence.to_ne_bytes());
        message.extend_from_slice(&0_u32.to_ne_bytes());
        message.extend_from_slice(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    /// One request; returns when the kernel has done it.
    pub(super) fn request(&mut self, kind: u16, flags: u16, body: &Body) -> io::Result<()> {
        let message = self.message(kind, flags | ACKNOWLEDGE, body.bytes());
        let last = self.sequence;
        self.send(&message)?;
        self.acknowledged(last)
    }

    /// Several requests as one transaction (the firewall's batches). The first and the last are
    /// the marks of the batch; the one before the last is acknowledged.
    pub(super) fn transaction(&mut self, requests: &[(u16, u16, Body)]) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut awaited = 0;
        for (place, (kind, flags, body)) in requests.iter().enumerate() {
            let last = place + 2 == requests.len();
            let flags = if last { *flags | ACKNOWLEDGE } else { *flags };
            bytes.extend(self.message(*kind, flags, body.bytes()));
            if last {
                awaited = self.sequence;
            }
        }
        self.send(&bytes)?;
        self.acknowledged(awaited)
    }

    /// Everything that the kernel lists for a request: the bodies of its answers.
    pub(super) fn dump(&mut self, kind: u16, body: &Body) -> io::Result<Vec<Vec<u8>>> {
        let message = self.message(kind, DUMP, body.bytes());
        self.send(&message)?;
        let mut found = Vec::new();
        loop {
            for (kind, sequence, body) in messages(&self.receive()?) {
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    DONE => return Ok(found),
                    ERROR => return status(body).map(|()| found),
                    _ => found.push(body.to_vec()),
                }
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        if send(&self.socket, bytes, SendFlags::empty())? == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::other("the kernel took a part of a request"))
        }
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; ANSWER];
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, length)) => {
                    buffer.truncate(length);
                    return Ok(buffer);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the answer to the request `last`; an error of an earlier one of its batch counts.
    fn acknowledged(&self, last: u32) -> io::Result<()> {
        loop {
            for (kind, sequence, body) in messages(&self.receive()?) {
                if kind != ERROR {
                    continue;
                }
                status(body)?;
                if sequence == last {
                    return Ok(());
                }
            }
        }
    }
}

fn messages(mut bytes: &[u8]) -> Vec<(u16, u32, &[u8])> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind), Some(sequence)) = (u32_at(bytes, 0), u16_at(bytes, 4), u32_at(bytes, 8)) {
        let length = length as usize;
        let Some(body) = bytes.get(HEADER..length) else {
            break;
        };
        found.push((kind, sequence, body));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    found
}

fn status(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel answered too shortly")),
    }
}
