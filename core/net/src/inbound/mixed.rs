//! The mixed port: SOCKS 4, 4a and 5 and HTTP on one port, told apart by the first byte.

mod associate;
mod bind;
mod forward;
mod http;
mod incoming;
mod socks;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use culvert_wire::{Destination, Host, Network};
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::flow::{Dispatch, Flow};
use super::peer::PeerUser;
use super::shards::Shards;
use incoming::Incoming;

pub use bind::{Holder, Taken};

/// How long a new connection may say nothing. Browsers open connections ahead of need.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// How long a handshake may take from its first byte on.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// The most connections at once.
const CONNECTIONS: usize = 16_384;

/// A user name and password.
#[derive(Clone)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Login {
    /// Compares in a time that tells nothing about where they differ.
    fn matches(&self, user: &[u8], password: &[u8]) -> bool {
        bool::from(self.user.as_bytes().ct_eq(user) & self.password.as_bytes().ct_eq(password))
    }
}

/// Options of the mixed port.
#[derive(Clone)]
pub struct Options {
    /// Name for [`Flow::inbound`].
    pub name: Arc<str>,
    /// Address to listen on.
    pub address: IpAddr,
    /// Wanted port; 0 for a random one.
    pub port: u16,
    /// Ports after the wanted one that are tried when it is taken.
    pub next_ports: u16,
    /// Required login; `None` for none.
    pub login: Option<Login>,
    /// Accept connections from other computers without a login.
    pub allow_other_computers: bool,
    /// Finds the user of a local client; connections of other users (but root) are refused. `None`
    /// accepts every user.
    pub peer_user: Option<Arc<dyn PeerUser>>,
    /// Names the program that holds a taken port.
    pub holder: Option<Holder>,
}

impl Default for Options {
    fn default() -> Self {
        #[cfg(target_os = "linux")]
        let peer_user: Option<Arc<dyn PeerUser>> = Some(Arc::new(super::peer::LinuxPeerUser));
        #[cfg(not(target_os = "linux"))]
        let peer_user = None;
        Self {
            name: "mixed".into(),
            address: IpAddr::from([127, 0, 0, 1]),
            port: 2080,
            next_ports: 20,
            login: None,
            allow_other_computers: false,
            peer_user,
            holder: None,
        }
    }
}

/// What all connections of the port share.
struct Port {
    options: Options,
    local: SocketAddr,
    dispatch: Arc<dyn Dispatch>,
    open: AtomicUsize,
}

/// The running mixed port. Dropping it stops listening; flows that are open go on.
pub struct Mixed {
    address: SocketAddr,
    taken: Option<Taken>,
    listeners: Vec<AbortHandle>,
}

impl Mixed {
    /// Listens on every shard.
    ///
    /// # Errors
    /// None of the wanted ports can be listened on.
    pub fn start(options: Options, shards: &Shards, dispatch: Arc<dyn Dispatch>) -> io::Result<Self> {
        let bound = bind::bind(&options, shards.handles().len())?;
        let port = Arc::new(Port { options, local: bound.address, dispatch, open: AtomicUsize::new(0) });
        let mut listeners = Vec::new();
        for (listener, shard) in bound.listeners.into_iter().zip(shards.handles()) {
            let _inside = shard.enter();
            let listener = TcpListener::from_std(listener)?;
            listeners.push(shard.spawn(accept(listener, Arc::clone(&port))).abort_handle());
        }
        Ok(Self { address: bound.address, taken: bound.taken, listeners })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The wanted port and its holder, when another had to be used.
    pub fn taken(&self) -> Option<&Taken> {
        self.taken.as_ref()
    }
}

impl Drop for Mixed {
    fn drop(&mut self) {
        for listener in &self.listeners {
            listener.abort();
        }
    }
}

async fn accept(listener: TcpListener, port: Arc<Port>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let port = Arc::clone(&port);
                if port.open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                    port.open.fetch_sub(1, Ordering::Relaxed);
                    tracing::warn!("the mixed port has {CONNECTIONS} connections: one more is refused");
                    continue;
                }
                tokio::spawn(async move {
                    let _open = Open(&port.open);
                    if let Err(error) = serve(stream, peer, &port).await {
                        tracing::debug!("a connection to the mixed port ended: {error}");
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: wait for some to be given back.
                tracing::warn!("the mixed port can't accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Counts a connection while it lives.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

async fn serve(stream: TcpStream, peer: SocketAddr, port: &Port) -> io::Result<()> {
    crate::dial::tune(&stream);
    // A listener on all addresses is asked at the one that was called.
    let local = stream.local_addr()?;
    port.admit(peer, local)?;
    let mut client = Incoming::new(stream);
    match tokio::time::timeout(FIRST_BYTE, client.first_byte()).await {
        Ok(Ok(Some(4))) => within(HANDSHAKE, socks::serve_v4(client, peer, port)).await?,
        Ok(Ok(Some(5))) => within(HANDSHAKE, socks::serve_v5(client, peer, port)).await?,
        Ok(Ok(Some(0x16))) => return Err(malformed("a client speaks TLS to the mixed port")),
        Ok(Ok(Some(_))) => return http::serve(client, peer, port).await,
        // Opened and closed, or never used: port checks and browsers do so.
        Ok(Ok(None)) | Err(_) => return Ok(()),
        Ok(Err(error)) => return Err(error),
    }
    .await;
    Ok(())
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not finish its handshake in time")),
    }
}

impl Port {
    /// Whether this client may use the port at all.
    fn admit(&self, peer: SocketAddr, local: SocketAddr) -> io::Result<()> {
        let ours = peer.ip().to_canonical().is_loopback() || peer.ip() == local.ip();
        if !ours {
            return if self.options.allow_other_computers || self.options.login.is_some() {
                Ok(())
            } else {
                Err(refused("a connection from another computer is refused"))
            };
        }
        let Some(users) = &self.options.peer_user else { return Ok(()) };
        match users.user(peer, local) {
            Some(user) if user == users.own() || user == 0 => Ok(()),
            Some(user) => Err(refused(&format!("a connection from user {user} of this computer is refused"))),
            None => Err(refused("a connection whose user can't be told is refused")),
        }
    }

    /// Whether `destination` is this port itself: a loop.
    fn is_ourselves(&self, destination: &Destination) -> bool {
        if destination.port != self.local.port() {
            return false;
        }
        match &destination.host {
            Host::Ip(ip) => {
                let ip = ip.to_canonical();
                ip.is_loopback() || ip.is_unspecified() || ip == self.local.ip()
            }
            Host::Name(name) => {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                name == "localhost" || name.ends_with(".localhost")
            }
        }
    }

    fn flow(&self, source: SocketAddr, destination: Destination, network: Network, user: Option<Arc<str>>) -> Flow {
        Flow { source, destination, network, inbound: Arc::clone(&self.options.name), user }
    }
}
