//! macOS.

pub(crate) mod autostart;
mod networksetup;
mod pcblist;
pub(crate) mod process;
mod proxy;
mod sysctl;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::system_proxy::Backend;

pub(crate) use crate::network_changes::polling as network_changes;

pub(crate) fn proxy_backends() -> Vec<Box<dyn Backend>> {
    vec![Box::new(proxy::NetworkSetup)]
}

pub(crate) fn proxy_backend(name: &str) -> Option<Box<dyn Backend>> {
    (name == proxy::NAME).then(|| Box::new(proxy::NetworkSetup) as Box<dyn Backend>)
}

pub(crate) fn detached_commands(program: &Path, arguments: &[OsString]) -> Vec<Command> {
    let mut plain = Command::new(program);
    plain.args(arguments);
    vec![plain]
}

/// Called by the guard in itself: a session of its own, so that a closing terminal passes it by.
pub(crate) fn detach_guard() {
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "no session of its own for the guard");
    }
    sysctl::ignore_requests_to_end();
}
