//! A Shadowsocks server: TCP, and UDP on a socket of its own.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use culvert_wire::shadowsocks::{self, KeyError, Method, PacketServer, SessionId, Step};
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::{BATCH, DATAGRAM_IDLE, Front, Lane, ServeError, Upstream, read_front, serve_stream};
use crate::chunked::{ChunkedStream, NoHeader};
use crate::clock::{clock, unix_seconds};
use crate::datagram::Datagram;
use crate::random::SystemRandom;
use crate::stream::BoxStream;

/// Clients of the UDP side at once; datagrams of more are dropped.
const MOST_CLIENTS: usize = 4096;
/// Datagrams of one client that wait; more are dropped.
const WAITING: usize = 256;

/// Keys, users, and what was seen lately.
pub struct Server {
    requests: Mutex<shadowsocks::Server>,
    packets: Mutex<PacketServer>,
    upstream: Upstream,
}

/// What tells the clients of the UDP side apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ClientKey {
    Session(SessionId),
    Address(SocketAddr),
}

impl Server {
    /// A server of `method` with `password`, and `users` (keys; 2022 AES methods only).
    pub fn new(method: Method, password: &str, users: &[&str], upstream: Upstream) -> Result<Self, KeyError> {
        Ok(Self {
            requests: Mutex::new(shadowsocks::Server::new(method, password, users)?),
            packets: Mutex::new(PacketServer::new(method, password, users)?),
            upstream,
        })
    }

    /// Serves one accepted connection to its end.
    pub async fn serve(&self, mut stream: BoxStream) -> Result<(), ServeError> {
        let clock = clock();
        let (accepted, received) = read_front(&mut stream, |input| match self.requests.lock().read(input, &clock) {
            Ok(Step::NeedMore(_)) => Ok(Front::NeedMore),
            Ok(Step::Request(accepted)) => Ok(Front::Whole(accepted)),
            Err(error) => Err(ServeError::Refused(error.to_string())),
        })
        .await?;
        let open = NoHeader::new(Box::new(accepted.open));
        let client = ChunkedStream::new(stream, Box::new(accepted.seal), Box::new(open))
            .with_received(&received[accepted.consumed..]);
        let payload = accepted.payload.into();
        serve_stream(&self.upstream, Box::new(client), accepted.destination, payload).await
    }

    /// Serves datagrams that come to `socket`, until it fails.
    pub async fn serve_packets(self: Arc<Self>, socket: Arc<UdpSocket>) -> io::Result<()> {
        let mut clients: HashMap<ClientKey, Lane> = HashMap::new();
        let mut packet = vec![0; 65_536];
        loop {
            // An answer that a client no longer waited for comes back as an error; go on.
            let Ok((length, from)) = socket.recv_from(&mut packet).await else { continue };
            let opened = self.packets.lock().open(&mut packet[..length], unix_seconds(), &mut SystemRandom);
            let Ok(incoming) = opened else { continue };
            let key = incoming.session.map_or(ClientKey::Address(from), ClientKey::Session);
            let datagram = Datagram { peer: incoming.target, payload: BytesMut::from(&packet[incoming.payload]) };
            if clients.get(&key).is_none_or(mpsc::Sender::is_closed) {
                if clients.len() >= MOST_CLIENTS {
                    clients.retain(|_, lane| !lane.is_closed());
                    if clients.len() >= MOST_CLIENTS {
                        continue;
                    }
                }
                let (lane, queue) = mpsc::channel(WAITING);
                clients.insert(key, lane);
                let (server, socket) = (self.clone(), socket.clone());
                tokio::spawn(async move { server.serve_client(&socket, incoming.session, from, queue).await });
            }
            if let Some(lane) = clients.get(&key) {
                let _ = lane.try_send(datagram);
            }
        }
    }

    async fn serve_client(
        &self,
        socket: &UdpSocket,
        session: Option<SessionId>,
        client: SocketAddr,
        mut queue: mpsc::Receiver<Datagram>,
    ) {
        let Ok(associated) = self.upstream.outbound.associate(&self.upstream.dialer).await else { return };
        let mut target = associated.flow;
        let (mut up, mut down) = (VecDeque::new(), Vec::new());
        let mut sealed = Vec::new();
        loop {
            let step = poll_fn(|cx| {
                while up.len() < BATCH {
                    match queue.poll_recv(cx) {
                        Poll::Ready(Some(datagram)) => up.push_back(datagram),
                        Poll::Ready(None) => return Poll::Ready(false),
                        Poll::Pending => break,
                    }
                }
                let sent = !up.is_empty() && target.poll_send(cx, &mut up).is_ready();
                match target.poll_receive(cx, &mut down, BATCH) {
                    Poll::Ready(Ok(count)) => Poll::Ready(count > 0),
                    Poll::Ready(Err(_)) => Poll::Ready(false),
                    Poll::Pending if sent => Poll::Ready(true),
                    Poll::Pending => Poll::Pending,
                }
            });
            match tokio::time::timeout(DATAGRAM_IDLE, step).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
            for datagram in down.drain(..) {
                sealed.clear();
                let sealing = self.packets.lock().seal(
                    session,
                    &datagram.peer,
                    &datagram.payload,
                    unix_seconds(),
                    &mut SystemRandom,
                    &mut sealed,
                );
                if sealing.is_ok() {
                    let _ = socket.send_to(&sealed, client).await;
                }
            }
        }
    }
}
