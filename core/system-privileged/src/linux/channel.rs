//! The socket between the helper and its caller: packets with descriptors beside them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// The most descriptors beside one packet.
pub const MAX_DESCRIPTORS: usize = 64;

/// One end of a connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A packet and what came beside it.
#[derive(Debug)]
pub struct Packet {
    /// Its bytes; empty when the other side has gone.
    pub bytes: Vec<u8>,
    /// The descriptors, closed on exec.
    pub descriptors: Vec<OwnedFd>,
}

impl Channel {
    /// Connects to a helper.
    ///
    /// # Errors
    /// No helper listens there, or it is not for this user.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = new_socket()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// How long a packet may take to be sent or to come; `None` is for ever.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        set_socket_timeout(&self.0, Timeout::Recv, patience)?;
        Ok(set_socket_timeout(&self.0, Timeout::Send, patience)?)
    }

    /// How long a packet may take to be sent.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_send_patience(&self, patience: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.0, Timeout::Send, Some(patience))?)
    }

    /// The user of the process that made the connection.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub fn user(&self) -> io::Result<u32> {
        Ok(socket_peercred(&self.0)?.uid.as_raw())
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// More than `MAX_DESCRIPTORS`, or the other side has gone or does not read.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one packet"));
        }
        let parts = [IoSlice::new(bytes)];
        loop {
            match rustix::net::sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a packet of at most `most` bytes.
    ///
    /// # Errors
    /// A larger packet or more than `MAX_DESCRIPTORS`, or the connection fails.
    pub fn receive(&self, most: usize) -> io::Result<Packet> {
        let mut bytes = vec![0; most];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match rustix::net::recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(found) = message {
                descriptors.extend(found);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet larger than any message"));
        }
        bytes.truncate(received.bytes);
        Ok(Packet { bytes, descriptors })
    }
}

/// Where connections come in.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Listens at a path that is not there yet.
    ///
    /// # Errors
    /// The path is there, or its folder can't be written to.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = new_socket()?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&socket, 16)?;
        Ok(Self(socket))
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// No descriptor is left, or the like.
    pub fn accept(&self) -> io::Result<Channel> {
        loop {
            match rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(Channel(socket)),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}
