//! Through a Shadowsocks server.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use culvert_profile::node;
use culvert_wire::Destination;
use culvert_wire::shadowsocks::{Client, Keys, MAX_DATAGRAM, Method, PacketClient};
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;

use super::{Associated, ConnectError, ConnectRequest, Connected, Phase, Trace};
use crate::chunked::{ChunkedStream, NoHeader};
use crate::clock::{clock, unix_seconds};
use crate::datagram::{Datagram, DatagramFlow};
use crate::dial::Dialer;
use crate::random::SystemRandom;

/// Payload that goes into the request itself, bytes; the rest follows in chunks.
const FIRST: usize = 8 << 10;

/// A Shadowsocks server and our keys.
#[derive(Clone)]
pub struct Shadowsocks(Arc<Inner>);

struct Inner {
    server: Destination,
    keys: Keys,
    client: Client,
}

impl Shadowsocks {
    /// The outbound of these options, or why they can't be used.
    pub fn new(server: Destination, options: &node::Shadowsocks) -> Result<Self, String> {
        if let Some(plugin) = &options.plugin {
            return Err(format!("the plugin {} is not supported yet", plugin.name));
        }
        if options.udp_over_tcp {
            return Err("UDP over TCP is not supported yet".to_owned());
        }
        let method = Method::parse(&options.method)
            .ok_or_else(|| format!("the method {} is unknown or too weak", options.method))?;
        let keys = Keys::new(method, options.password.expose()).map_err(|e| e.to_string())?;
        Ok(Self(Arc::new(Inner { server, client: Client::new(keys.clone()), keys })))
    }

    /// A stream to the target.
    pub async fn connect(&self, dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
        let inner = &self.0;
        let mut trace = Trace::start();
        let socket = dialer.connect(&inner.server, &mut trace).await?;
        let mut head = Vec::new();
        let (first, rest) = request.first_payload.split_at(request.first_payload.len().min(FIRST));
        let (seal, open) = inner.client.start(&request.destination, first, &clock(), &mut SystemRandom, &mut head);
        let answer = NoHeader::new(Box::new(open));
        let mut stream = ChunkedStream::new(socket, Box::new(seal), Box::new(answer)).with_prefix(head);
        if !first.is_empty() {
            let sent = async {
                stream.write_all(rest).await?;
                stream.flush().await
            };
            sent.await.map_err(|e| ConnectError::io(&inner.server, Phase::Protocol, e))?;
        }
        Ok(Connected { stream: Box::new(stream), trace })
    }

    /// A UDP association.
    pub async fn associate(&self, dialer: &Dialer) -> Result<Associated, ConnectError> {
        let inner = &self.0;
        let trace = Trace::start();
        let io = |e| ConnectError::io(&inner.server, Phase::Dial, e);
        let addresses = dialer.addresses(&inner.server.host).await?;
        let Some(address) = addresses.first() else {
            return Err(io(io::ErrorKind::AddrNotAvailable.into()));
        };
        let socket = dialer.udp_socket(*address).map_err(io)?;
        socket.connect((*address, inner.server.port)).await.map_err(io)?;
        let flow = Datagrams {
            socket,
            packets: PacketClient::new(&inner.keys, &mut SystemRandom),
            sealed: Vec::new(),
            scratch: Vec::new(),
        };
        Ok(Associated { flow: Box::new(flow), trace })
    }
}

struct Datagrams {
    socket: UdpSocket,
    packets: PacketClient,
    /// A packet that the socket did not take yet.
    sealed: Vec<u8>,
    scratch: Vec<u8>,
}

impl Datagrams {
    fn poll_sealed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A refusal of an earlier datagram (ICMP), or one too many for the network: lost.
        if !self.sealed.is_empty() && self.socket.poll_send(cx, &self.sealed).is_pending() {
            return Poll::Pending;
        }
        self.sealed.clear();
        Poll::Ready(())
    }
}

impl DatagramFlow for Datagrams {
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        while self.poll_sealed(cx).is_ready() {
            let Some(datagram) = batch.pop_front() else { return Poll::Ready(Ok(taken)) };
            if datagram.payload.len() <= MAX_DATAGRAM {
                self.packets.seal(
                    &datagram.peer,
                    &datagram.payload,
                    unix_seconds(),
                    &mut SystemRandom,
                    &mut self.sealed,
                );
            }
            taken += 1;
        }
        if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(taken)) }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        let _ = self.poll_sealed(cx);
        let before = out.len();
        while out.len() - before < limit {
            if self.socket.poll_recv_ready(cx)?.is_pending() {
                break;
            }
            self.scratch.resize(65_536, 0);
            let Ok(length) = self.socket.try_recv(&mut self.scratch) else { continue };
            if let Ok((peer, place)) = self.packets.open(&mut self.scratch[..length], unix_seconds()) {
                out.push(Datagram { peer, payload: BytesMut::from(&self.scratch[place]) });
            }
        }
        self.scratch = Vec::new();
        match out.len() - before {
            0 => Poll::Pending,
            received => Poll::Ready(Ok(received)),
        }
    }
}
