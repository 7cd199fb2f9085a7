//! From a socket to its process: `sock_diag` for user and inode, `/proc` for the rest.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::sock_diag::{self, Socket, States};
use crate::process::{LookupError, SocketOwner, Transport, User, covers, unmap};

/// So many processes are looked at first; a browser and what else is busy fit in.
const REMEMBERED: usize = 16;
/// The mark of a deleted program's file (it was updated under way).
const DELETED: &str = " (deleted)";

#[derive(Debug, Default)]
pub(crate) struct Lookup {
    recent: Mutex<VecDeque<u32>>,
}

impl Lookup {
    pub(crate) fn owner_of(
        &self,
        transport: Transport,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Option<SocketOwner>, LookupError> {
        let found = match transport {
            Transport::Tcp => sock_diag::tcp_by_ends(local, remote),
            Transport::Udp => udp(local, remote),
        };
        let found = found.map_err(|source| LookupError { what: "sock_diag", source })?;
        Ok(found.map(|socket| self.owner(socket)))
    }

    pub(crate) fn listener_on(
        &self,
        transport: Transport,
        address: SocketAddr,
    ) -> Result<Option<SocketOwner>, LookupError> {
        let states = match transport {
            Transport::Tcp => States::Listen,
            Transport::Udp => States::All,
        };
        let found = both_families(transport, states, address.port())
            .map_err(|source| LookupError { what: "sock_diag", source })?
            .into_iter()
            .find(|socket| covers(socket.local, address));
        Ok(found.map(|socket| self.owner(socket)))
    }

    fn owner(&self, socket: Socket) -> SocketOwner {
        let ours = rustix::process::getuid().as_raw();
        let user = if socket.uid == ours { User::Ours } else { User::Other };
        let pid = self.pid_of(socket);
        let path = pid.and_then(program_of);
        let name = path.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        // A kernel-shortened name is better than none (another user's process, a container's).
        let name =
            name.or_else(|| Some(fs::read_to_string(format!("/proc/{}/comm", pid?)).ok()?.trim_end().to_owned()));
        SocketOwner { pid, path, name, uid: Some(socket.uid), user }
    }

    fn pid_of(&self, socket: Socket) -> Option<u32> {
        if socket.inode == 0 {
            return None;
        }
        let wanted = format!("socket:[{}]", socket.inode);
        let known: Vec<u32> = self.recent().iter().copied().collect();
        let found = known.into_iter().find(|pid| holds(*pid, &wanted)).or_else(|| search(&wanted, socket.uid))?;
        let mut recent = self.recent();
        recent.retain(|pid| *pid != found);
        recent.push_front(found);
        recent.truncate(REMEMBERED);
        Some(found)
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, VecDeque<u32>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The UDP socket that sends from `local` to `remote`: connected to it, or not connected at all.
fn udp(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    let sockets = both_families(Transport::Udp, States::All, local.port())?;
    let fits = |socket: &&Socket| covers(socket.local, local);
    Ok(sockets
        .iter()
        .filter(fits)
        .find(|socket| unmap(socket.remote) == remote)
        .or_else(|| sockets.iter().filter(fits).find(|socket| socket.remote.port() == 0))
        .copied())
}

fn both_families(transport: Transport, states: States, port: u16) -> io::Result<Vec<Socket>> {
    let mut all = sock_diag::by_local_port(transport, false, states, port)?;
    all.extend(sock_diag::by_local_port(transport, true, states, port)?);
    Ok(all)
}

/// Looks through the processes, those of the socket's user first. Processes of others show their sockets to root only.
fn search(wanted: &str, uid: u32) -> Option<u32> {
    let mut others = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        match entry.metadata() {
            Ok(metadata) if metadata.uid() == uid => {
                if holds(pid, wanted) {
                    return Some(pid);
                }
            }
            Ok(_) => others.push(pid),
            Err(_) => {}
        }
    }
    others.into_iter().find(|pid| holds(*pid, wanted))
}

fn holds(pid: u32, wanted: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    entries.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == Path::new(wanted)))
}

fn program_of(pid: u32) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    match path.to_str().and_then(|text| text.strip_suffix(DELETED)) {
        Some(text) => Some(PathBuf::from(text)),
        None => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;
    use crate::process::ProcessLookup;

    fn assert_ours(owner: Option<SocketOwner>) {
        let owner = owner.expect("the socket is there");
        assert_eq!(owner.pid, Some(std::process::id()));
        assert_eq!(owner.user, User::Ours);
        assert_eq!(owner.uid, Some(rustix::process::getuid().as_raw()));
        assert_eq!(owner.path, Some(std::env::current_exe().unwrap()));
        assert!(owner.label().contains(&std::process::id().to_string()));
    }

    #[test]
    fn tcp_both_ends_and_the_listener() {
        let lookup = ProcessLookup::new();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let at = listener.local_addr().unwrap();
            let client = TcpStream::connect(at).unwrap();
            let (_server, peer) = listener.accept().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            for _ in 0..2 {
                assert_ours(lookup.owner_of(Transport::Tcp, peer, at).unwrap());
            }
            assert_ours(lookup.listener_on(Transport::Tcp, at).unwrap());
        }
    }

    #[test]
    fn an_ipv4_client_with_a_dual_stack_socket() {
        let lookup = ProcessLookup::new();
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (_server, peer) = listener.accept().unwrap();
        // The peer is shown in IPv6 dress.
        assert!(peer.is_ipv6());
        assert_ours(lookup.owner_of(Transport::Tcp, peer, SocketAddr::from(([127, 0, 0, 1], port))).unwrap());
        assert_ours(lookup.listener_on(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], port))).unwrap());
        drop(client);
    }

    #[test]
    fn udp_connected_and_not() {
        let lookup = ProcessLookup::new();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let loose = UdpSocket::bind("0.0.0.0:0").unwrap();
        let from = SocketAddr::from(([127, 0, 0, 1], loose.local_addr().unwrap().port()));
        assert_ours(lookup.owner_of(Transport::Udp, from, at).unwrap());
        let tied = UdpSocket::bind("127.0.0.1:0").unwrap();
        tied.connect(at).unwrap();
        assert_ours(lookup.owner_of(Transport::Udp, tied.local_addr().unwrap(), at).unwrap());
        assert_ours(lookup.listener_on(Transport::Udp, at).unwrap());
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let lookup = ProcessLookup::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert_eq!(lookup.owner_of(Transport::Tcp, SocketAddr::from(([127, 0, 0, 1], 1)), at).unwrap(), None);
        drop(listener);
        assert_eq!(lookup.listener_on(Transport::Tcp, at).unwrap(), None);
    }
}
