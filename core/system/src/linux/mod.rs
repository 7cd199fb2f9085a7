//! Linux.

pub(crate) mod autostart;
mod gnome;
mod kde;
pub(crate) mod network_changes;
pub(crate) mod process;
mod session;
mod signals;
mod sock_diag;

pub(crate) use session::{detach_guard, detached_commands};

use crate::system_proxy::Backend;

/// GNOME's setting is read by GTK programs on every desktop; KDE's by KDE's own and by Chromium under it.
pub(crate) fn proxy_backends() -> Vec<Box<dyn Backend>> {
    let mut backends: Vec<Box<dyn Backend>> = Vec::new();
    if kde::is_session() {
        backends.extend(kde::Kde::of_user().map(|backend| Box::new(backend) as Box<dyn Backend>));
    }
    if gnome::is_installed() {
        backends.push(Box::new(gnome::Gnome));
    }
    backends
}

pub(crate) fn proxy_backend(name: &str) -> Option<Box<dyn Backend>> {
    match name {
        gnome::NAME => Some(Box::new(gnome::Gnome)),
        kde::NAME => kde::Kde::of_user().map(|backend| Box::new(backend) as Box<dyn Backend>),
        _ => None,
    }
}
