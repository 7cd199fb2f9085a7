//! UDP ASSOCIATE: a relay port that hears only its controlling client.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use culvert_wire::socks::{self, Address, Reply};
use culvert_wire::{Destination, Host};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UdpSocket};

use crate::datagram::{Datagram, DatagramFlow};

/// A relay port without its controlling connection.
pub(super) struct Unbound {
    socket: UdpSocket,
    client: IpAddr,
    port: u16,
}

pub(super) struct Association {
    /// The association lives as long as this connection.
    control: TcpStream,
    socket: UdpSocket,
    client: IpAddr,
    /// The client's port, once it is known (0 before).
    port: u16,
    scratch: Vec<u8>,
}

/// Opens a relay port on the address that the client called, and the answer that tells it.
pub(super) fn open(
    control: &TcpStream,
    peer: SocketAddr,
    stated: &Destination,
    forbidden: impl Fn(&Destination) -> bool,
) -> io::Result<(Unbound, Vec<u8>)> {
    let local = control.local_addr()?.ip();
    let socket = std::net::UdpSocket::bind(SocketAddr::new(local, 0))?;
    socket.set_nonblocking(true)?;
    let socket = UdpSocket::from_std(socket)?;
    // A client may state the port that it will send from; the address is its own in any case.
    let same_host = match &stated.host {
        Host::Ip(ip) => ip.is_unspecified() || *ip == peer.ip(),
        Host::Name(_) => false,
    };
    let port = if same_host && !forbidden(stated) { stated.port } else { 0 };
    let answer = socks::reply_v5(Reply::Succeeded, &socket.local_addr()?.into());
    Ok((Unbound { socket, client: peer.ip(), port }, answer))
}

impl Unbound {
    /// The association, which ends with `control`.
    pub(super) fn controlled_by(self, control: TcpStream) -> Association {
        Association { control, socket: self.socket, client: self.client, port: self.port, scratch: Vec::new() }
    }
}

impl DatagramFlow for Association {
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let mut sent = 0;
        while let Some(front) = batch.front() {
            if self.port != 0 {
                self.scratch.clear();
                self.scratch.extend_from_slice(&[0, 0, 0]);
                Address::put(&front.peer, &mut self.scratch);
                self.scratch.extend_from_slice(&front.payload);
                let client = SocketAddr::new(self.client, self.port);
                // One that can't be sent (too large, the client's port is gone) is lost.
                if self.socket.poll_send_to(cx, &self.scratch, client).is_pending() {
                    break;
                }
            }
            batch.pop_front();
            sent += 1;
        }
        self.scratch = Vec::new();
        if sent == 0 && !batch.is_empty() { Poll::Pending } else { Poll::Ready(Ok(sent)) }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        // What the client says on the connection means nothing; its end ends the association.
        let mut ignored = [0; 256];
        loop {
            let mut space = ReadBuf::new(&mut ignored);
            match Pin::new(&mut self.control).poll_read(cx, &mut space) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !space.filled().is_empty() => {}
                Poll::Ready(Ok(()) | Err(_)) => return Poll::Ready(Ok(0)),
            }
        }
        let before = out.len();
        while out.len() - before < limit {
            if self.socket.poll_recv_ready(cx)?.is_pending() {
                break;
            }
            self.scratch.resize(65_536, 0);
            let Ok((length, from)) = self.socket.try_recv_from(&mut self.scratch) else { continue };
            if from.ip() != self.client || (self.port != 0 && from.port() != self.port) {
                continue;
            }
            if let Some((peer, at)) = socks::parse_datagram(&self.scratch[..length]) {
                self.port = from.port();
                out.push(Datagram { peer, payload: BytesMut::from(&self.scratch[at..length]) });
            }
        }
        self.scratch = Vec::new();
        match out.len() - before {
            0 => Poll::Pending,
            received => Poll::Ready(Ok(received)),
        }
    }
}
