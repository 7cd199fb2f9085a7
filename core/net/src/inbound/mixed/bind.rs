//! Finding a port to listen on.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};

use super::Options;

/// Names the program that listens on an address, if it can be found.
pub type Holder = Arc<dyn Fn(SocketAddr) -> Option<String> + Send + Sync>;

/// A wanted port that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The wanted port.
    pub port: u16,
    /// Name of the program that holds it.
    pub holder: Option<String>,
}

pub(super) struct Bound {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) address: SocketAddr,
    pub(super) taken: Option<Taken>,
}

const BACKLOG: i32 = 1024;

/// `count` listeners on the first free port.
pub(super) fn bind(options: &Options, count: usize) -> io::Result<Bound> {
    let mut taken = None;
    let last = if options.port == 0 { 0 } else { options.port.saturating_add(options.next_ports) };
    for port in options.port..=last {
        let address = SocketAddr::new(options.address, port);
        match listeners(address, count) {
            Ok((listeners, address)) => return Ok(Bound { listeners, address, taken }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && port < last => {
                if taken.is_none() {
                    let holder = options.holder.as_ref().and_then(|name| name(address));
                    taken = Some(Taken { port, holder });
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

fn listeners(address: SocketAddr, count: usize) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    // Alone first: two programs that both share their port would each get half of the clients.
    let alone = socket(address)?;
    alone.bind(&address.into())?;
    alone.listen(BACKLOG)?;
    let bound = alone.local_addr()?.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
    #[cfg(unix)]
    if count > 1 {
        drop(alone);
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let shared = socket(bound)?;
            shared.set_reuse_port(true)?;
            shared.bind(&bound.into())?;
            shared.listen(BACKLOG)?;
            all.push(shared.into());
        }
        return Ok((all, bound));
    }
    let alone: TcpListener = alone.into();
    let mut all = vec![alone];
    for _ in 1..count {
        let again = all[0].try_clone()?;
        all.push(again);
    }
    Ok((all, bound))
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // On Windows this option means something else: sharing a port in use.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    Ok(socket)
}
