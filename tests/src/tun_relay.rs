//! A small program around the TUN inbound, for tests and benchmarks: every flow goes directly
//! (bound to a link, past the tunnel) or through a SOCKS5 server.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use culvert_net::datagram::{Datagram, DatagramFlow};
use culvert_net::inbound::tun::{Outlet, TunDispatch, TunInbound, Unobserved, linux_queue};
use culvert_net::outbound::{Associated, ConnectError, Phase, Trace};
use culvert_net::stream::{LendRead, LendWrite, Stream};
use culvert_netstack::device::Capabilities;
use culvert_netstack::stack::Limits;
use culvert_system_privileged::linux::tun::{TunDevice, TunOptions};
use culvert_wire::Destination;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

/// Where flows go.
#[derive(Debug, Clone)]
pub enum Way {
    /// Directly, out of the named link.
    Direct(String),
    /// Through a SOCKS5 server without authentication.
    Socks5(SocketAddr),
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The device's name.
    pub name: String,
    /// Its MTU.
    pub mtu: u16,
    /// Its queues.
    pub queues: u16,
    /// Whether to use what the kernel takes over.
    pub offloads: bool,
    /// Where flows go.
    pub way: Way,
}

/// Opens the device and serves it.
///
/// # Errors
/// The device can't be opened.
pub fn start(options: &Options) -> io::Result<TunInbound> {
    let device = TunDevice::open(&TunOptions {
        name: options.name.clone(),
        mtu: options.mtu,
        queues: options.queues,
        addresses: vec![
            (IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), 30),
            (IpAddr::V6(Ipv6Addr::new(0xfdc0, 0x203, 0, 0, 0, 0, 0, 1)), 126),
        ],
        owner: None,
    })
    .map_err(io::Error::other)?;
    let granted = device.offloads;
    let capabilities = if options.offloads {
        Capabilities {
            mtu: usize::from(device.mtu),
            checksum: granted.checksum,
            tcp_segmentation: granted.tcp_segmentation,
            udp_segmentation: granted.udp_segmentation,
        }
    } else {
        Capabilities::plain(usize::from(device.mtu))
    };
    let queues = device.queues.into_iter().map(|queue| linux_queue(queue, true, capabilities)).collect();
    TunInbound::start(queues, &Relay(Arc::new(options.way.clone())), Limits::default())
}

/// Dispatches every flow one way.
#[derive(Clone)]
struct Relay(Arc<Way>);

impl TunDispatch for Relay {
    fn needs_first_bytes(&self, _: SocketAddr, _: SocketAddr) -> bool {
        false
    }

    async fn connect(&self, _: SocketAddr, destination: SocketAddr, _: Bytes) -> Result<Outlet, ConnectError> {
        let connected = match &*self.0 {
            Way::Direct(link) => connect_directly(link, destination).await,
            Way::Socks5(server) => connect_socks5(*server, destination).await,
        };
        let stream = connected.map_err(|source| failed(destination, source))?;
        Ok(Outlet { stream: Box::new(Plain(stream)), target_reached: true, observer: Box::new(Unobserved) })
    }

    async fn associate(&self, _: SocketAddr, destination: SocketAddr) -> Result<Associated, ConnectError> {
        let Way::Direct(link) = &*self.0 else {
            return Err(ConnectError::NotOffered("no UDP through this server".to_owned()));
        };
        let any: IpAddr = match destination {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = std::net::UdpSocket::bind((any, 0)).and_then(|socket| {
            socket2::SockRef::from(&socket).bind_device(Some(link.as_bytes()))?;
            socket.set_nonblocking(true)?;
            UdpSocket::from_std(socket)
        });
        let socket = socket.map_err(|source| failed(destination, source))?;
        let flow = PlainDatagrams { socket, buffer: vec![0; 65_536].into_boxed_slice() };
        Ok(Associated { flow: Box::new(flow), trace: Trace::start() })
    }
}

fn failed(server: SocketAddr, source: io::Error) -> ConnectError {
    ConnectError::Io { server: server.to_string(), phase: Phase::Dial, source: Arc::new(source) }
}

async fn connect_directly(link: &str, destination: SocketAddr) -> io::Result<TcpStream> {
    let socket = match destination {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket2::SockRef::from(&socket).bind_device(Some(link.as_bytes()))?;
    let stream = socket.connect(destination).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect_socks5(server: SocketAddr, destination: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let mut request = vec![5, 1, 0, 5, 1, 0];
    match destination.ip() {
        IpAddr::V4(address) => {
            request.push(1);
            request.extend(address.octets());
        }
        IpAddr::V6(address) => {
            request.push(4);
            request.extend(address.octets());
        }
    }
    request.extend(destination.port().to_be_bytes());
    stream.write_all(&request[..3]).await?;
    let mut choice = [0; 2];
    stream.read_exact(&mut choice).await?;
    if choice != [5, 0] {
        return Err(io::Error::other("the server wants authentication"));
    }
    stream.write_all(&request[3..]).await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    if answer[1] != 0 {
        return Err(io::Error::other(format!("the server answered {}", answer[1])));
    }
    let rest = if answer[3] == 4 { 18 } else { 6 };
    let mut bound = [0; 18];
    stream.read_exact(&mut bound[..rest]).await?;
    Ok(stream)
}

/// A TCP connection whose bytes are the flow's.
struct Plain(TcpStream);

impl AsyncRead for Plain {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Stream for Plain {
    fn raw_read(&self) -> Option<&TcpStream> {
        Some(&self.0)
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        Some(&self.0)
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        None
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        None
    }
}

struct PlainDatagrams {
    socket: UdpSocket,
    buffer: Box<[u8]>,
}

impl DatagramFlow for PlainDatagrams {
    fn poll_send(&mut self, cx: &mut Context<'_>, batch: &mut VecDeque<Datagram>) -> Poll<io::Result<usize>> {
        let mut sent = 0;
        while let Some(datagram) = batch.front() {
            if let Some(peer) = datagram.peer.socket_address() {
                match self.socket.poll_send_to(cx, &datagram.payload, peer) {
                    Poll::Pending if sent == 0 => return Poll::Pending,
                    Poll::Pending => break,
                    // As on any path, a datagram that can't be sent is lost.
                    Poll::Ready(_) => {}
                }
            }
            batch.pop_front();
            sent += 1;
        }
        Poll::Ready(Ok(sent))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<Datagram>, limit: usize) -> Poll<io::Result<usize>> {
        for count in 0..limit {
            let mut buffer = ReadBuf::new(&mut self.buffer);
            let peer = match self.socket.poll_recv_from(cx, &mut buffer) {
                Poll::Pending if count > 0 => return Poll::Ready(Ok(count)),
                result => ready!(result)?,
            };
            let payload = BytesMut::from(buffer.filled());
            out.push(Datagram { peer: Destination::from(peer), payload });
        }
        Poll::Ready(Ok(limit))
    }
}
