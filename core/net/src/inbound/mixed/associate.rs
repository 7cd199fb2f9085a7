//! UDP ASSOCIATE: a UDP socket for one client, alive as long as its TCP connection.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use culvert_wire::socks::{Address, Reply, parse_datagram, reply_v5};
use culvert_wire::{Destination, Host};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UdpSocket};

use super::connection::Incoming;
use crate::datagram::{Datagram, DatagramFlow};
use crate::inbound::Dispatch;

/// The largest UDP payload there is.
const MAX_DATAGRAM: usize = 65_535;
/// Errors of the socket that one turn puts up with.
const MAX_ERRORS: u32 = 16;

/// Opens the association and hands it to `dispatch`. `stated` is where the client says that it will
/// send from.
pub(super) async fn serve<D: Dispatch>(mut incoming: Incoming, stated: &Destination, dispatch: &D) -> io::Result<()> {
    // On the address that the client reached us by, never on the wildcard.
    let socket = match UdpSocket::bind(SocketAddr::new(incoming.local.ip(), 0)).await {
        Ok(socket) => socket,
        Err(error) => {
            let zero = Destination::new(Host::Ip([0, 0, 0, 0].into()), 0);
            incoming.stream.write_all(&reply_v5(Reply::GeneralFailure, &zero)).await?;
            return Err(error);
        }
    };
    let bound = socket.local_addr()?;
    incoming.stream.write_all(&reply_v5(Reply::Succeeded, &bound.into())).await?;
    // A stated port other than zero is binding; a stated address never widens whom we hear.
    let port = (stated.port != 0).then_some(stated.port);
    let flow = incoming.flow(Destination::new(Host::Ip([0, 0, 0, 0].into()), 0));
    let association = Association {
        socket,
        control: incoming.stream,
        client: SocketAddr::new(incoming.source.ip(), port.unwrap_or(0)),
        buffer: vec![0; MAX_DATAGRAM].into_boxed_slice(),
        out: Vec::new(),
    };
    dispatch.datagrams(flow, Box::new(association)).await;
    Ok(())
}

/// The client's side of an association.
struct Association {
    socket: UdpSocket,
    control: TcpStream,
    /// Whom the socket hears: the controlling client's address, and the port of its first datagram
    /// (0 until then).
    client: SocketAddr,
    buffer: Box<[u8]>,
    out: Vec<u8>,
}

impl Association {
    /// Ready when the controlling connection has ended. Bytes on it mean nothing.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 256];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.control).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl DatagramFlow for Association {
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let mut sent = 0;
        while let Some(datagram) = batch.front() {
            // Before the client has sent anything there is no port to answer to.
            if self.client.port() != 0 {
                self.out.clear();
                self.out.extend_from_slice(&[0, 0, 0]);
                Address::put(&datagram.peer, &mut self.out);
                self.out.extend_from_slice(&datagram.payload);
                match self.socket.poll_send_to(cx, &self.out, self.client) {
                    Poll::Ready(_) => {}
                    Poll::Pending if sent > 0 => return Poll::Ready(Ok(sent)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            batch.pop_front();
            sent += 1;
        }
        Poll::Ready(Ok(sent))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        if self.poll_ended(cx).is_ready() {
            return Poll::Ready(Ok(0));
        }
        let (mut received, mut errors) = (0, 0);
        while received < limit {
            let mut buffer = ReadBuf::new(&mut self.buffer);
            match self.socket.poll_recv_from(cx, &mut buffer) {
                Poll::Ready(Ok(from)) => {
                    let known =
                        from.ip() == self.client.ip() && (self.client.port() == 0 || from.port() == self.client.port());
                    // Fragments, other senders and broken headers are dropped without a word.
                    if let (true, Some((peer, start))) = (known, parse_datagram(buffer.filled())) {
                        self.client = from;
                        let payload = buffer.filled().get(start..).unwrap_or_default();
                        out.push(Datagram { peer, payload: BytesMut::from(payload) });
                        received += 1;
                    }
                }
                // An ICMP error about an earlier answer: the client's port was closed, or is not open yet.
                Poll::Ready(Err(error)) => {
                    errors += 1;
                    if errors > MAX_ERRORS {
                        return Poll::Ready(Err(error));
                    }
                }
                Poll::Pending if received > 0 => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(received))
    }
}
