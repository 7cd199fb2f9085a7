//! From a socket to its process, by the kernel's list of sockets.

use std::net::SocketAddr;

use super::pcblist::{self, Socket};
use super::sysctl;
use crate::process::{LookupError, SocketOwner, Transport, User, covers, unmap};

#[derive(Debug, Default)]
pub(crate) struct Lookup;

impl Lookup {
    pub(crate) fn owner_of(
        &self,
        transport: Transport,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Option<SocketOwner>, LookupError> {
        let sockets = all(transport)?;
        let fits = |socket: &&Socket| match transport {
            Transport::Tcp => unmap(socket.local) == local,
            Transport::Udp => covers(socket.local, local),
        };
        let exact = sockets.iter().filter(fits).find(|socket| unmap(socket.remote) == remote);
        let loose =
            || sockets.iter().filter(fits).find(|socket| transport == Transport::Udp && socket.remote.port() == 0);
        Ok(exact.or_else(loose).map(owner))
    }

    pub(crate) fn listener_on(
        &self,
        transport: Transport,
        address: SocketAddr,
    ) -> Result<Option<SocketOwner>, LookupError> {
        Ok(all(transport)?.iter().find(|socket| socket.remote.port() == 0 && covers(socket.local, address)).map(owner))
    }
}

fn all(transport: Transport) -> Result<Vec<Socket>, LookupError> {
    let name = match transport {
        Transport::Tcp => c"net.inet.tcp.pcblist_n",
        Transport::Udp => c"net.inet.udp.pcblist_n",
    };
    let list = sysctl::read(name).map_err(|source| LookupError { what: "pcblist_n", source })?;
    Ok(pcblist::parse(&list))
}

fn owner(socket: &Socket) -> SocketOwner {
    let path = sysctl::program_of(socket.pid);
    let name = path.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    let ours = rustix::process::getuid().as_raw();
    SocketOwner {
        pid: Some(socket.pid),
        path,
        name,
        uid: Some(socket.uid),
        user: if socket.uid == ours { User::Ours } else { User::Other },
    }
}
