//! The mixed port: SOCKS 4, 4a and 5 and HTTP proxying on one port, told apart by the first byte.

mod associate;
mod connection;
mod http;
mod socks;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{Dispatch, Shards};
use crate::dial::tune;

/// How long a client may take from connecting to the end of its request.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(20);
/// Waiting connections that the system may hold.
const BACKLOG: i32 = 1024;

/// A login that clients must give.
#[derive(Clone)]
pub struct Login {
    user: String,
    password: String,
}

impl Login {
    /// A user name and a password of at most 255 bytes each (RFC 1929).
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Option<Self> {
        let (user, password) = (user.into(), password.into());
        (user.len() <= 255 && password.len() <= 255).then_some(Self { user, password })
    }

    /// Compares in constant time (for equal lengths).
    pub(crate) fn matches(&self, user: &[u8], password: &[u8]) -> bool {
        bool::from(self.user.as_bytes().ct_eq(user) & self.password.as_bytes().ct_eq(password))
    }
}

/// Says whether the program at the other end of a connection may use the port. Asked with the
/// peer's and our own address of each new connection; must not block for long.
pub type Admit = Arc<dyn Fn(SocketAddr, SocketAddr) -> bool + Send + Sync>;

/// How the port is opened and whom it serves.
#[derive(Clone)]
pub struct MixedOptions {
    /// The address and port to listen on. Port 0 is a random one.
    pub listen: SocketAddr,
    /// When the port is taken, how many of the following ones are tried.
    pub next_ports: u16,
    /// A login that every client must give, if there is one.
    pub login: Option<Login>,
    /// Who may connect.
    pub admit: Option<Admit>,
    /// The most connections at a time.
    pub connections: usize,
    /// The most connections at a time from one address that is not loopback.
    pub connections_per_source: usize,
}

impl MixedOptions {
    /// Serves everyone who can reach `listen`, which had better be loopback, without a login.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, next_ports: 0, login: None, admit: None, connections: 16_384, connections_per_source: 512 }
    }
}

/// What the connections of one port share.
pub(crate) struct Shared {
    pub(crate) login: Option<Login>,
    pub(crate) local: SocketAddr,
    admit: Option<Admit>,
    limits: (usize, usize),
    open: AtomicUsize,
    sources: Mutex<HashMap<IpAddr, usize>>,
}

/// The open port. Dropping it stops accepting; connections that are open go on until their shards
/// end.
pub struct MixedInbound {
    local: SocketAddr,
    stop: watch::Sender<bool>,
    shared: Arc<Shared>,
}

impl MixedInbound {
    /// Opens the port and serves it on every shard.
    ///
    /// # Errors
    /// The port, and each of the next ones that may be tried, can't be opened. The error is that
    /// of the wanted port.
    pub fn start<D: Dispatch>(shards: &Shards, options: MixedOptions, dispatch: &D) -> io::Result<Self> {
        let listener = listen(options.listen, options.next_ports)?;
        let local = listener.local_addr()?;
        let shared = Arc::new(Shared {
            login: options.login,
            local,
            admit: options.admit,
            limits: (options.connections, options.connections_per_source),
            open: AtomicUsize::new(0),
            sources: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(false);
        for index in 0..shards.count() {
            // One listening socket, shared: with a socket of its own for each shard (SO_REUSEPORT)
            // another program of the same user could open the port as well and take connections.
            let listener = listener.try_clone()?;
            let (shared, stopped, dispatch) = (Arc::clone(&shared), stopped.clone(), dispatch.clone());
            shards.run_on(index, move || accept(listener, shared, stopped, dispatch));
        }
        Ok(Self { local, stop, shared })
    }

    /// Where it listens.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }
}

impl Drop for MixedInbound {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

fn listen(wanted: SocketAddr, next_ports: u16) -> io::Result<std::net::TcpListener> {
    let mut first_error = None;
    for offset in 0..=next_ports {
        let Some(port) = wanted.port().checked_add(offset) else { break };
        match listen_at(SocketAddr::new(wanted.ip(), port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => {
                let taken = matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
                let error = first_error.unwrap_or(error);
                if !taken {
                    return Err(error);
                }
                first_error = Some(error);
            }
        }
    }
    Err(first_error.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

fn listen_at(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // On Windows this option would let others take the port; elsewhere it only ends TIME_WAIT early.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

async fn accept<D: Dispatch>(
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
    dispatch: D,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a shard can't listen");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        match accepted {
            Ok((stream, source)) => {
                if let Some(place) = Place::take(&shared, source) {
                    let dispatch = dispatch.clone();
                    tokio::task::spawn_local(async move { serve(stream, source, &place, &dispatch).await });
                }
            }
            Err(error) => {
                // Out of descriptors, most likely: connections that end will free some.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve<D: Dispatch>(stream: TcpStream, source: SocketAddr, place: &Place, dispatch: &D) {
    tune(&stream);
    let Ok(local) = stream.local_addr() else { return };
    if place.shared.admit.as_ref().is_some_and(|admit| !admit(source, local)) {
        tracing::warn!("a program of another user was refused at the local port");
        return;
    }
    connection::serve(stream, source, local, &place.shared, dispatch).await;
}

/// A connection's place under the limits; given back when dropped.
struct Place {
    shared: Arc<Shared>,
    source: Option<IpAddr>,
}

impl Place {
    fn take(shared: &Arc<Shared>, source: SocketAddr) -> Option<Self> {
        let (all, each) = shared.limits;
        if shared.open.fetch_add(1, Ordering::Relaxed) >= all {
            shared.open.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!("a connection was refused: {all} are open");
            return None;
        }
        let mut place = Self { shared: Arc::clone(shared), source: None };
        // Programs of this computer share one address: the limit of all is theirs.
        if !source.ip().is_loopback() {
            let mut sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
            let open = sources.entry(source.ip()).or_default();
            if *open >= each {
                tracing::warn!("a connection was refused: its source has {each} open");
                return None;
            }
            *open += 1;
            place.source = Some(source.ip());
        }
        Some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(source) = self.source {
            let mut sources = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = sources.get_mut(&source) {
                *open -= 1;
                if *open == 0 {
                    sources.remove(&source);
                }
            }
        }
    }
}
