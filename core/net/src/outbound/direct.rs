//! Straight to the target.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use culvert_wire::{Destination, Host};
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;

use super::{Associated, ConnectError, ConnectRequest, Connected, Phase, Trace};
use crate::datagram::{Datagram, DatagramFlow};
use crate::dial::Dialer;

/// The most names that one association remembers.
const NAME_LIMIT: usize = 1024;

/// A TCP connection to the target.
pub async fn connect(dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
    let mut trace = Trace::start();
    let mut stream = dialer.connect(&request.destination, &mut trace).await?;
    if !request.first_payload.is_empty() {
        let sent = stream.write_all(&request.first_payload).await;
        sent.map_err(|e| ConnectError::io(&request.destination, Phase::Dial, e))?;
    }
    Ok(Connected { stream: Box::new(stream), trace })
}

/// UDP sockets of this computer, one a family, opened when first needed.
pub fn associate(dialer: &Dialer) -> Associated {
    let flow = DirectDatagrams {
        dialer: dialer.clone(),
        v4: None,
        v6: None,
        names: HashMap::new(),
        sources: HashMap::new(),
        resolving: None,
        scratch: Vec::new(),
    };
    Associated { flow: Box::new(flow), trace: Trace::start() }
}

type Resolving = Pin<Box<dyn Future<Output = Option<IpAddr>> + Send>>;

struct DirectDatagrams {
    dialer: Dialer,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    /// Names that were sent to, with their address (`None`: it could not be found).
    names: HashMap<Host, Option<IpAddr>>,
    /// The name to give as the source of answers from an address.
    sources: HashMap<SocketAddr, Destination>,
    resolving: Option<Resolving>,
    scratch: Vec<u8>,
}

impl DirectDatagrams {
    fn poll_address(&mut self, cx: &mut Context<'_>, peer: &Destination) -> Poll<Option<SocketAddr>> {
        if let Some(address) = peer.socket_address() {
            return Poll::Ready(Some(address));
        }
        let known = match self.names.get(&peer.host) {
            Some(known) => *known,
            None => {
                let (dialer, host) = (&self.dialer, &peer.host);
                let resolving = self.resolving.get_or_insert_with(|| {
                    let (dialer, host) = (dialer.clone(), host.clone());
                    Box::pin(async move { dialer.addresses(&host).await.ok()?.first().copied() })
                });
                let found = ready!(resolving.as_mut().poll(cx));
                self.resolving = None;
                if self.names.len() >= NAME_LIMIT {
                    self.names.clear();
                    self.sources.clear();
                }
                self.names.insert(peer.host.clone(), found);
                found
            }
        };
        let address = known.map(|ip| SocketAddr::new(ip, peer.port));
        if let Some(address) = address {
            if self.sources.len() >= NAME_LIMIT {
                self.sources.clear();
            }
            self.sources.entry(address).or_insert_with(|| peer.clone());
        }
        Poll::Ready(address)
    }

    fn socket(&mut self, to: SocketAddr) -> io::Result<&UdpSocket> {
        let socket = if to.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        match socket {
            Some(socket) => Ok(socket),
            empty => Ok(empty.insert(self.dialer.udp_socket(to.ip())?)),
        }
    }
}

impl DatagramFlow for DirectDatagrams {
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let mut sent = 0;
        while let Some(front) = batch.front() {
            let peer = front.peer.clone();
            let Poll::Ready(address) = self.poll_address(cx, &peer) else {
                break;
            };
            if let Some(address) = address {
                // An unreachable target or an oversized datagram is lost, as on any network.
                if let Ok(socket) = self.socket(address) {
                    if socket.poll_send_to(cx, &front.payload, address).is_pending() {
                        break;
                    }
                }
            }
            batch.pop_front();
            sent += 1;
        }
        if sent == 0 && !batch.is_empty() { Poll::Pending } else { Poll::Ready(Ok(sent)) }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        let before = out.len();
        for socket in [&self.v4, &self.v6].into_iter().flatten() {
            while out.len() - before < limit {
                if socket.poll_recv_ready(cx)?.is_pending() {
                    break;
                }
                self.scratch.resize(65_536, 0);
                // An error tells that an earlier datagram was refused (ICMP); there is no one to tell.
                if let Ok((length, from)) = socket.try_recv_from(&mut self.scratch) {
                    let peer = self.sources.get(&from).cloned().unwrap_or_else(|| from.into());
                    out.push(Datagram { peer, payload: BytesMut::from(&self.scratch[..length]) });
                }
            }
        }
        self.scratch = Vec::new();
        match out.len() - before {
            0 => Poll::Pending,
            received => Poll::Ready(Ok(received)),
        }
    }
}
