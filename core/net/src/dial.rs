//! The first hop: sockets of this computer, with their options.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use culvert_wire::{Destination, Host};
use futures_util::stream::{FuturesUnordered, StreamExt};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::outbound::{ConnectError, Phase, Trace};
use crate::resolver::Resolver;

/// Delay between two attempts of the same connection (RFC 8305 recommends 250 ms).
const NEXT_ATTEMPT: Duration = Duration::from_millis(250);
/// A connection that died is noticed after about 30 + 6 × 10 s.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);

/// Which address family to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// In the resolver's order, the families in turns.
    #[default]
    Any,
    /// IPv4 first.
    PreferV4,
    /// IPv6 first.
    PreferV6,
    /// IPv4 only.
    OnlyV4,
    /// IPv6 only.
    OnlyV6,
}

/// Called with each socket before it is connected or used, so that its packets go past our own
/// TUN device.
pub trait Protect: Send + Sync {
    /// Marks or binds `socket`; an error makes the connection fail (never leak into the tunnel).
    fn protect(&self, socket: SockRef<'_>, target: Option<SocketAddr>) -> io::Result<()>;
}

/// Options of the sockets that are opened.
#[derive(Clone)]
pub struct DialOptions {
    /// Network interface to leave through.
    pub interface: Option<String>,
    /// Firewall mark (Linux).
    pub mark: Option<u32>,
    /// Address family.
    pub family: Family,
    /// Hook of the TUN mode.
    pub protect: Option<Arc<dyn Protect>>,
    /// Limit of each phase of a connection.
    pub phase_limit: Duration,
}

impl Default for DialOptions {
    fn default() -> Self {
        Self { interface: None, mark: None, family: Family::Any, protect: None, phase_limit: Duration::from_secs(10) }
    }
}

/// Opens the sockets of this computer.
#[derive(Clone)]
pub struct Dialer {
    options: Arc<DialOptions>,
    resolver: Resolver,
}

impl Default for Dialer {
    fn default() -> Self {
        Self::new(DialOptions::default(), Resolver::system())
    }
}

impl Dialer {
    /// A dialer with these options.
    pub fn new(options: DialOptions, resolver: Resolver) -> Self {
        Self { options: Arc::new(options), resolver }
    }

    /// The options.
    pub fn options(&self) -> &DialOptions {
        &self.options
    }

    /// The resolver.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Runs one phase of a connection to `server` under the phase limit, and marks it in `trace`.
    pub async fn phase<T>(
        &self,
        server: &Destination,
        phase: Phase,
        trace: &mut Trace,
        work: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        match tokio::time::timeout(self.options.phase_limit, work).await {
            Ok(Ok(value)) => {
                trace.mark(phase);
                Ok(value)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ConnectError::TimedOut { server: server.to_string(), phase }),
        }
    }

    /// Addresses of `host` in the order in which to try them.
    pub async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, ConnectError> {
        let found = match host {
            Host::Ip(address) => return Ok(vec![*address]),
            Host::Name(name) => self
                .resolver
                .resolve(name)
                .await
                .map_err(|e| ConnectError::Resolve { name: name.to_string(), reason: e.reason })?,
        };
        let ordered = order(found, self.options.family);
        if ordered.is_empty() {
            return Err(ConnectError::Resolve {
                name: host.to_string(),
                reason: "it has no address of the chosen family".to_owned(),
            });
        }
        Ok(ordered)
    }

    /// A TCP connection to `server`, racing its addresses (RFC 8305).
    pub async fn connect(&self, server: &Destination, trace: &mut Trace) -> Result<TcpStream, ConnectError> {
        let addresses = match &server.host {
            Host::Ip(address) => vec![*address],
            Host::Name(_) => self.phase(server, Phase::Resolve, trace, self.addresses(&server.host)).await?,
        };
        let race = self.race(&addresses, server);
        self.phase(server, Phase::Dial, trace, race).await
    }

    async fn race(&self, addresses: &[IpAddr], server: &Destination) -> Result<TcpStream, ConnectError> {
        let failed = |error: io::Error| {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                ConnectError::Refused { server: server.to_string() }
            } else {
                ConnectError::Io { server: server.to_string(), phase: Phase::Dial, source: Arc::new(error) }
            }
        };
        let mut waiting = addresses.iter().map(|ip| SocketAddr::new(*ip, server.port));
        let mut attempts = FuturesUnordered::new();
        let mut last = None;
        loop {
            match waiting.next() {
                Some(address) => attempts.push(self.connect_address(address)),
                None if attempts.is_empty() => {
                    let error = last.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable));
                    return Err(failed(error));
                }
                None => {}
            }
            let more = waiting.len() > 0;
            tokio::select! {
                Some(result) = attempts.next() => match result {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = Some(error),
                },
                () = tokio::time::sleep(NEXT_ATTEMPT), if more => {}
            }
        }
    }

    async fn connect_address(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        self.prepare(SockRef::from(&socket), Some(address))?;
        let stream = socket.connect(address).await?;
        tune(&stream);
        Ok(stream)
    }

    /// A UDP socket of the family of `like`, bound to a free port.
    pub fn udp_socket(&self, like: IpAddr) -> io::Result<UdpSocket> {
        let (domain, any) = match like {
            IpAddr::V4(_) => (Domain::IPV4, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            IpAddr::V6(_) => (Domain::IPV6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        self.prepare(SockRef::from(&socket), None)?;
        // Larger is better for bursts; the system's limit may be lower, which is fine.
        let _ = socket.set_recv_buffer_size(1 << 20);
        socket.bind(&SocketAddr::new(any, 0).into())?;
        UdpSocket::from_std(socket.into())
    }

    fn prepare(&self, socket: SockRef<'_>, target: Option<SocketAddr>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            if let Some(interface) = &self.options.interface {
                socket.bind_device(Some(interface.as_bytes()))?;
            }
            if let Some(mark) = self.options.mark {
                socket.set_mark(mark)?;
            }
        }
        if let Some(protect) = &self.options.protect {
            protect.protect(socket, target)?;
        }
        Ok(())
    }
}

/// Options that every connected TCP socket of ours has. Failing to set one is no reason to fail.
pub fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Families in turns, the preferred one first; the resolver's order within each.
fn order(addresses: Vec<IpAddr>, family: Family) -> Vec<IpAddr> {
    let first_is_v6 = match family {
        Family::Any => addresses.first().is_some_and(IpAddr::is_ipv6),
        Family::PreferV6 | Family::OnlyV6 => true,
        Family::PreferV4 | Family::OnlyV4 => false,
    };
    let only = matches!(family, Family::OnlyV4 | Family::OnlyV6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    if only {
        return first;
    }
    let mut ordered = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let before = ordered.len();
        ordered.extend(first.next());
        ordered.extend(second.next());
        if ordered.len() == before {
            return ordered;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let all = vec![ip("::1"), ip("::2"), ip("10.0.0.1"), ip("10.0.0.2"), ip("10.0.0.3")];
        let texts = |family| order(all.clone(), family).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(Family::Any), "::1 10.0.0.1 ::2 10.0.0.2 10.0.0.3");
        assert_eq!(texts(Family::PreferV4), "10.0.0.1 ::1 10.0.0.2 ::2 10.0.0.3");
        assert_eq!(texts(Family::OnlyV6), "::1 ::2");
    }

    #[tokio::test]
    async fn a_dead_address_does_not_stop_the_live_one() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Destination::new(Host::parse("127.0.0.1").unwrap(), port);
        let dialer = Dialer::default();
        let dead: IpAddr = "127.0.0.2".parse().unwrap();
        dialer.race(&[dead, "127.0.0.1".parse().unwrap()], &server).await.unwrap();
        let error = dialer.race(&[dead], &server).await.unwrap_err();
        assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    }
}
