//! Listening, and who may speak.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use culvert_system_privileged::linux::channel::{Channel, Listener};
use culvert_system_privileged::linux::tunnel::{self, Places, TunnelError};

use crate::session;

/// More connections at once than this are closed. One core needs one.
const MAX_CONNECTIONS: usize = 8;
/// How long to wait when no descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);

/// How the service runs; fixed at its installation.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The socket; its folder is made if it is absent.
    pub(crate) socket: PathBuf,
    /// The journal and the resolver's file.
    pub(crate) places: Places,
    /// The users who may speak.
    pub(crate) users: Vec<u32>,
    /// The name of the tunnel's device.
    pub(crate) device: String,
}

/// Why the service ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    /// It can't listen.
    #[error("listening at {path} failed: {source}")]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What an earlier run left can't be undone.
    #[error(transparent)]
    Repair(#[from] TunnelError),
}

/// Repairs what an earlier run left, then serves until the process ends.
pub(crate) fn serve(settings: Settings) -> Result<(), ServiceError> {
    tunnel::repair(&settings.places)?;
    let listener =
        listen(&settings).map_err(|source| ServiceError::Listen { path: settings.socket.clone(), source })?;
    let settings = Arc::new(settings);
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept() {
            Ok(channel) => admit(channel, &settings, &open),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn listen(settings: &Settings) -> io::Result<Listener> {
    if let Some(folder) = settings.socket.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    match std::fs::remove_file(&settings.socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = Listener::bind(&settings.socket)?;
    // One user: the socket is his. Several: everyone can reach it, and the check of who it is
    // decides, as it does for the one.
    // The mode comes first: a socket of someone else's takes a further capability to change.
    let one = match settings.users.as_slice() {
        [user] => Some(*user),
        _ => None,
    };
    let mode = if one.is_some() { 0o600 } else { 0o666 };
    std::fs::set_permissions(&settings.socket, std::fs::Permissions::from_mode(mode))?;
    if let Some(user) = one {
        std::os::unix::fs::chown(&settings.socket, Some(user), None)?;
    }
    Ok(listener)
}

/// Starts a session for a connection of a user who may speak; closes any other at once.
fn admit(channel: Channel, settings: &Arc<Settings>, open: &Arc<AtomicUsize>) {
    let Ok(user) = channel.user() else { return };
    if !settings.users.contains(&user) {
        session::refuse(&channel, "it is not installed for this user");
        return;
    }
    if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
        open.fetch_sub(1, Ordering::Relaxed);
        session::refuse(&channel, "it has too many connections");
        return;
    }
    let settings = Arc::clone(settings);
    let counter = Arc::clone(open);
    let started = std::thread::Builder::new().spawn(move || {
        session::run(&channel, user, &settings);
        counter.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        open.fetch_sub(1, Ordering::Relaxed);
    }
}
