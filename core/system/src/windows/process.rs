//! From a socket to its process, by the system's tables.

use std::net::SocketAddr;

use super::tables::{self, Socket};
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
        let found = all(transport)?.into_iter().find(|socket| match socket.remote {
            Some(far) => unmap(socket.local) == local && unmap(far) == remote,
            None => covers(socket.local, local),
        });
        Ok(found.map(owner))
    }

    pub(crate) fn listener_on(
        &self,
        transport: Transport,
        address: SocketAddr,
    ) -> Result<Option<SocketOwner>, LookupError> {
        let found = all(transport)?
            .into_iter()
            .find(|socket| socket.remote.is_none_or(|far| far.port() == 0) && covers(socket.local, address));
        Ok(found.map(owner))
    }
}

fn all(transport: Transport) -> Result<Vec<Socket>, LookupError> {
    tables::sockets(transport).map_err(|source| LookupError { what: "the table of sockets", source })
}

fn owner(socket: Socket) -> SocketOwner {
    let (path, same) = tables::process(socket.pid);
    let name = path.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    let user = match same {
        Some(true) => User::Ours,
        Some(false) => User::Other,
        None => User::Unknown,
    };
    SocketOwner { pid: Some(socket.pid), path, name, uid: None, user }
}
