//! The proxy setting of the desktop: read whole, changed, put back exactly.
//!
//! [`SystemProxy`] is what the core uses. Below it, a [`Backend`] speaks to one kind of setting (GNOME, KDE,
//! Windows, macOS) as a flat table of keys and raw values, so that what is put back is what was there, down to the
//! difference between "empty" and "never set". How the previous values survive a crash is told in [`journal`] and
//! [`crate::guard`].

pub mod bypass;
pub mod journal;
mod lock;
pub mod plan;
mod session;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use session::{Enabled, Problem, Repair, Restored, Status, SystemProxy, SystemProxyError};

/// Where the desktop's programs are to be pointed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyTarget {
    /// Address of our mixed port, normally loopback.
    pub host: IpAddr,
    /// Port of our mixed port.
    pub port: u16,
    /// Destinations that programs reach without the proxy: names, `*.suffix` names, addresses and networks in CIDR
    /// notation. [`bypass::default_list`] is a sane start.
    pub bypass: Vec<String>,
}

impl ProxyTarget {
    /// A target with the default bypass list.
    #[must_use]
    pub fn new(host: IpAddr, port: u16) -> Self {
        Self { host, port, bypass: bypass::default_list() }
    }
}

/// All values a backend knows, by key, as the desktop stores them. A key that isn't there was never set.
pub type Values = BTreeMap<String, String>;

/// What a setting does, which decides how a stranger's change of it is understood when we put values back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Turns proxying on or off (a mode, a flag). Once a stranger has changed an endpoint beside it, it is theirs.
    Switch,
    /// Names a proxy (host, port, URL of a script).
    Endpoint,
    /// Anything else, such as the list of destinations to leave alone.
    Detail,
}

/// One value to be changed; `None` means "not set at all".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The backend's key.
    pub key: String,
    /// The value it gets.
    pub value: Option<String>,
}

/// One value that pointing at a [`ProxyTarget`] needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Settings that belong together (a network service, a dial-up connection, the desktop).
    pub scope: String,
    /// What the setting does.
    pub role: Role,
    /// Key and value.
    pub change: Change,
}

/// Why a backend could not read or change the desktop's settings.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// A program or interface of the desktop isn't here.
    #[error("{what} is not available: {why}")]
    Unavailable {
        /// The program or interface.
        what: &'static str,
        /// What was seen.
        why: String,
    },
    /// A program of the desktop failed.
    #[error("{what} failed: {why}")]
    Failed {
        /// The program or interface.
        what: &'static str,
        /// What it said.
        why: String,
    },
    /// The change was accepted without an error and did not happen.
    #[error("{backend} did not keep {key}: is there a session bus, or is the setting locked by the administrator?")]
    NotKept {
        /// The backend's name.
        backend: &'static str,
        /// The first key that reads back otherwise.
        key: String,
    },
}

/// One kind of proxy setting. The calls block, for at most some seconds.
pub trait Backend: Send {
    /// A short, stable name; it is written to the journal.
    fn name(&self) -> &'static str;

    /// Reads every setting that has to do with proxies.
    ///
    /// # Errors
    /// When the desktop's interface is missing or fails.
    fn read(&self) -> Result<Values, BackendError>;

    /// The values that point at `target`, in the order in which they are to be written: whatever turns proxying on
    /// comes last.
    fn wanted(&self, target: &ProxyTarget, present: &Values) -> Vec<Wanted>;

    /// The values that turn proxying off, without touching what else is set.
    fn off(&self, present: &Values) -> Vec<Change>;

    /// The proxy that the settings point at now, when one is switched on and is given by address.
    fn endpoint(&self, present: &Values) -> Option<SocketAddr>;

    /// Writes values in the order given, tells the running programs, and reads back.
    ///
    /// # Errors
    /// When the interface fails, or accepts a change that then isn't there.
    fn write(&self, changes: &[Change]) -> Result<(), BackendError>;

    /// Turns proxying off.
    ///
    /// # Errors
    /// As [`Backend::read`] and [`Backend::write`].
    fn clear(&self) -> Result<(), BackendError> {
        let present = self.read()?;
        self.write(&self.off(&present))
    }

    /// Points at `target`. No journal is kept: this is for whoever keeps one.
    ///
    /// # Errors
    /// As [`Backend::read`] and [`Backend::write`].
    fn set(&self, target: &ProxyTarget) -> Result<(), BackendError> {
        let present = self.read()?;
        let changes: Vec<Change> = self.wanted(target, &present).into_iter().map(|wanted| wanted.change).collect();
        self.write(&changes)
    }
}

/// The backends that this desktop session has use for; empty on a desktop we don't know.
#[must_use]
pub fn backends() -> Vec<Box<dyn Backend>> {
    crate::os::proxy_backends()
}

/// The backend of this system with that name, whether or not the present session has use for it (a journal may
/// come from another session).
#[must_use]
pub fn backend(name: &str) -> Option<Box<dyn Backend>> {
    crate::os::proxy_backend(name)
}

/// Compares what is there with what was to be written.
pub(crate) fn check_kept(backend: &'static str, changes: &[Change], present: &Values) -> Result<(), BackendError> {
    match changes.iter().find(|change| present.get(&change.key) != change.value.as_ref()) {
        Some(change) => Err(BackendError::NotKept { backend, key: change.key.clone() }),
        None => Ok(()),
    }
}

/// The lock, for the guard, if it is free.
pub(crate) fn lock_for_guard(directory: &std::path::Path) -> std::io::Result<Option<lock::Lock>> {
    lock::Lock::try_take(directory)
}

/// Puts back, for the guard, which holds the lock.
pub(crate) fn settle_for_guard(
    directory: &std::path::Path,
    entries: &[plan::Entry],
    find: impl Fn(&str) -> Option<Box<dyn Backend>>,
) -> std::io::Result<Restored> {
    session::settle(directory, entries, |name| find(name).map(session::BackendRef::Owned))
}
