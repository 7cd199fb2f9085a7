//! Through a SOCKS proxy: 4, 4a and 5 with UDP ASSOCIATE.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use culvert_profile::node;
use culvert_wire::socks::{self, Address, Command, Reply, Version};
use culvert_wire::{Destination, Host};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UdpSocket};

use super::{Associated, ConnectError, ConnectRequest, Connected, Phase, Trace};
use crate::datagram::{Datagram, DatagramFlow};
use crate::dial::Dialer;

/// A SOCKS proxy.
pub struct Socks {
    server: Destination,
    version: Version,
    user: Option<(String, String)>,
}

impl Socks {
    /// The proxy at `server`.
    pub fn new(server: Destination, options: &node::Socks) -> Result<Self, String> {
        let version = match options.version.as_str() {
            "4" => Version::V4,
            "4a" => Version::V4a,
            "5" | "" => Version::V5,
            other => return Err(format!("SOCKS version {other} is unknown")),
        };
        let user = (options.username.is_some() || options.password.is_some()).then(|| {
            (
                options.username.clone().unwrap_or_default(),
                options.password.as_ref().map_or_else(String::new, |p| p.expose().to_owned()),
            )
        });
        if user.as_ref().is_some_and(|(name, password)| name.len() > 255 || password.len() > 255) {
            return Err("a SOCKS user name or password has at most 255 bytes".to_owned());
        }
        Ok(Self { server, version, user })
    }

    /// A stream to the target.
    pub async fn connect(&self, dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
        let mut trace = Trace::start();
        let mut stream = dialer.connect(&self.server, &mut trace).await?;
        let negotiation = async {
            let mut target = request.destination.clone();
            if self.version == Version::V4 && matches!(target.host, Host::Name(_)) {
                let found = dialer.addresses(&target.host).await?;
                let v4 = found.into_iter().find(IpAddr::is_ipv4);
                target.host = Host::Ip(
                    v4.ok_or_else(|| ConnectError::NotOffered("SOCKS 4 reaches IPv4 addresses only".to_owned()))?,
                );
            }
            match self.version {
                Version::V4 | Version::V4a => self.request_v4(&mut stream, &target).await?,
                Version::V5 => {
                    self.request_v5(&mut stream, Command::Connect, &target).await?;
                }
            }
            if !request.first_payload.is_empty() {
                stream.write_all(&request.first_payload).await.map_err(|e| self.io(e))?;
            }
            Ok(())
        };
        dialer.phase(&self.server, Phase::Protocol, &mut trace, negotiation).await?;
        Ok(Connected { stream: Box::new(stream), trace })
    }

    /// A UDP association (SOCKS 5 only).
    pub async fn associate(&self, dialer: &Dialer) -> Result<Associated, ConnectError> {
        if self.version != Version::V5 {
            return Err(ConnectError::NotOffered("SOCKS 4 carries no UDP".to_owned()));
        }
        let mut trace = Trace::start();
        let mut control = dialer.connect(&self.server, &mut trace).await?;
        let anything = Destination::new(Host::Ip(IpAddr::from([0, 0, 0, 0])), 0);
        let negotiation = self.request_v5(&mut control, Command::UdpAssociate, &anything);
        let bound = dialer.phase(&self.server, Phase::Protocol, &mut trace, negotiation).await?;
        let far = control.peer_addr().map_err(|e| self.io(e))?;
        let ip = match bound.host {
            Host::Ip(ip) if !ip.is_unspecified() => ip,
            Host::Ip(_) | Host::Name(_) => far.ip(),
        };
        let relay = SocketAddr::new(ip, bound.port);
        let socket = dialer.udp_socket(relay.ip()).map_err(|e| self.io(e))?;
        let flow = SocksDatagrams { control, socket, relay, scratch: Vec::new() };
        Ok(Associated { flow: Box::new(flow), trace })
    }

    async fn request_v4(&self, stream: &mut TcpStream, target: &Destination) -> Result<(), ConnectError> {
        let user = self.user.as_ref().map_or("", |(name, _)| name.as_str());
        let request = socks::request_v4(target, user)
            .ok_or_else(|| ConnectError::NotOffered("SOCKS 4 reaches no IPv6 address".to_owned()))?;
        stream.write_all(&request).await.map_err(|e| self.io(e))?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).await.map_err(|e| self.io(e))?;
        match answer {
            [0, 90, ..] => Ok(()),
            [0, code, ..] => {
                Err(ConnectError::Target { destination: target.to_string(), reason: format!("SOCKS 4 code {code}") })
            }
            _ => Err(self.broken()),
        }
    }

    async fn request_v5(
        &self,
        stream: &mut TcpStream,
        command: Command,
        target: &Destination,
    ) -> Result<Destination, ConnectError> {
        let io = |e| self.io(e);
        let greeting: &[u8] = if self.user.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] };
        stream.write_all(greeting).await.map_err(io)?;
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await.map_err(io)?;
        match (chosen, &self.user) {
            ([5, 0], _) => {}
            ([5, 2], Some((name, password))) => {
                let mut message = vec![1, name.len() as u8];
                message.extend_from_slice(name.as_bytes());
                message.push(password.len() as u8);
                message.extend_from_slice(password.as_bytes());
                stream.write_all(&message).await.map_err(io)?;
                let mut answer = [0; 2];
                stream.read_exact(&mut answer).await.map_err(io)?;
                if answer[1] != 0 {
                    return Err(self.handshake("the proxy refused the login", "wrong user name or password?"));
                }
            }
            ([5, _], _) => {
                return Err(self
                    .handshake("the proxy offers no common way to log in", "does it want a user name and password?"));
            }
            _ => return Err(self.broken()),
        }
        stream.write_all(&socks::request_v5(command, target)).await.map_err(io)?;
        let mut answer = Vec::with_capacity(64);
        loop {
            // Byte by byte at the end: what follows the answer belongs to the stream.
            let missing = socks::reply_v5_missing(&answer);
            if missing == 0 {
                break;
            }
            let from = answer.len();
            answer.resize(from + missing, 0);
            stream.read_exact(&mut answer[from..]).await.map_err(io)?;
        }
        let (reply, bound) = socks::parse_reply_v5(&answer).ok_or_else(|| self.broken())?;
        if reply != Reply::Succeeded {
            return Err(ConnectError::Target { destination: target.to_string(), reason: reply.to_string() });
        }
        Ok(bound)
    }

    fn io(&self, error: io::Error) -> ConnectError {
        ConnectError::io(&self.server, Phase::Protocol, error)
    }

    fn broken(&self) -> ConnectError {
        self.handshake("the answer is no SOCKS", "is this the port of a SOCKS proxy?")
    }

    fn handshake(&self, problem: &str, hint: &'static str) -> ConnectError {
        ConnectError::Handshake {
            server: self.server.to_string(),
            phase: Phase::Protocol,
            problem: problem.to_owned(),
            hint,
        }
    }
}

struct SocksDatagrams {
    /// The association lives as long as this connection.
    control: TcpStream,
    socket: UdpSocket,
    relay: SocketAddr,
    scratch: Vec<u8>,
}

impl DatagramFlow for SocksDatagrams {
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let mut sent = 0;
        while let Some(front) = batch.front() {
            self.scratch.clear();
            self.scratch.extend_from_slice(&[0, 0, 0]);
            Address::put(&front.peer, &mut self.scratch);
            self.scratch.extend_from_slice(&front.payload);
            match self.socket.poll_send_to(cx, &self.scratch, self.relay) {
                Poll::Pending => break,
                // Lost, as on any network.
                Poll::Ready(Ok(_) | Err(_)) => {}
            }
            batch.pop_front();
            sent += 1;
        }
        self.scratch = Vec::new();
        if sent == 0 && !batch.is_empty() { Poll::Pending } else { Poll::Ready(Ok(sent)) }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        let before = out.len();
        while out.len() - before < limit {
            if self.socket.poll_recv_ready(cx)?.is_pending() {
                break;
            }
            self.scratch.resize(65_536, 0);
            let Ok((length, from)) = self.socket.try_recv_from(&mut self.scratch) else {
                continue;
            };
            if from != self.relay {
                continue;
            }
            if let Some((peer, at)) = socks::parse_datagram(&self.scratch[..length]) {
                out.push(Datagram { peer, payload: BytesMut::from(&self.scratch[at..length]) });
            }
        }
        self.scratch = Vec::new();
        if out.len() > before {
            return Poll::Ready(Ok(out.len() - before));
        }
        let mut ignored = [0; 64];
        loop {
            let mut space = ReadBuf::new(&mut ignored);
            match Pin::new(&mut self.control).poll_read(cx, &mut space) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !space.filled().is_empty() => {}
                Poll::Ready(Ok(()) | Err(_)) => return Poll::Ready(Ok(0)),
            }
        }
    }
}
