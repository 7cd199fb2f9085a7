//! Which process and user a socket of this machine belongs to.
//!
//! Used for rules by process, for refusing connections of the machine's other users, and to name whoever holds a
//! port we want. Linux asks the kernel by the connection's two addresses (`sock_diag`) and finds the process in
//! `/proc`; Windows and macOS read the system's tables.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The kind of socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Whose a process is, seen from us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The user this process runs as.
    Ours,
    /// Someone else.
    Other,
    /// The system didn't say.
    Unknown,
}

/// The owner of a socket. What the system doesn't tell us (a process of another user, say) is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOwner {
    /// Process id.
    pub pid: Option<u32>,
    /// The program's file.
    pub path: Option<PathBuf>,
    /// A short name of the program.
    pub name: Option<String>,
    /// Number of the user (Unix).
    pub uid: Option<u32>,
    /// Whose it is.
    pub user: User,
}

impl SocketOwner {
    /// For messages: name and process id, as far as known.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.name, self.pid, self.uid) {
            (Some(name), Some(pid), _) => format!("{name} (process {pid})"),
            (None, Some(pid), _) => format!("process {pid}"),
            (_, None, Some(uid)) => format!("a process of user {uid}"),
            (_, None, None) => "an unknown process".into(),
        }
    }
}

/// The system's tables could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the owner of a socket can't be looked up ({what}): {source}")]
pub struct LookupError {
    /// What was asked.
    pub what: &'static str,
    /// The failure.
    pub source: std::io::Error,
}

/// Looks up owners; remembers the last processes found, since one program opens many connections. Cheap to make,
/// meant to be kept.
#[derive(Debug, Default)]
pub struct ProcessLookup {
    inner: crate::os::process::Lookup,
}

impl ProcessLookup {
    /// A lookup that remembers nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The owner of the socket whose own address is `local` and that talks to `remote`: for a connection we accepted,
    /// `local` is the peer's address and `remote` ours. `None` when there is no such socket (any more).
    ///
    /// # Errors
    /// When the system's tables can't be read.
    pub fn owner_of(
        &self,
        transport: Transport,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Option<SocketOwner>, LookupError> {
        self.inner.owner_of(transport, unmap(local), unmap(remote))
    }

    /// Who listens on (UDP: is bound to) `address`, directly or through a wildcard.
    ///
    /// # Errors
    /// When the system's tables can't be read.
    pub fn listener_on(&self, transport: Transport, address: SocketAddr) -> Result<Option<SocketOwner>, LookupError> {
        self.inner.listener_on(transport, unmap(address))
    }
}

/// An IPv4 address in IPv6 dress, as a dual-stack socket shows it, in its own clothes.
pub(crate) fn unmap(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a socket bound to `bound` receives what is sent to `address`.
pub(crate) fn covers(bound: SocketAddr, address: SocketAddr) -> bool {
    let bound = unmap(bound);
    bound.port() == address.port()
        && (bound.ip() == address.ip() || (bound.ip().is_unspecified() && (bound.is_ipv6() || address.is_ipv4())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_cover_what_they_should() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(covers(at("0.0.0.0:1"), at("127.0.0.1:1")));
        assert!(covers(at("[::]:1"), at("127.0.0.1:1")));
        assert!(covers(at("[::ffff:127.0.0.1]:1"), at("127.0.0.1:1")));
        assert!(!covers(at("0.0.0.0:1"), at("[::1]:1")));
        assert!(!covers(at("0.0.0.0:1"), at("127.0.0.1:2")));
        assert!(!covers(at("127.0.0.2:1"), at("127.0.0.1:1")));
    }
}
