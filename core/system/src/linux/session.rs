//! How the guard comes to stand apart from the core.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// The ways to start the guard, best first. In a scope of its own, stopping the core's service or scope doesn't stop
/// the guard; where systemd doesn't run for the user, its own session must do.
pub(crate) fn detached_commands(program: &Path, arguments: &[OsString]) -> Vec<Command> {
    let mut commands = Vec::new();
    if has_user_manager() {
        let mut scoped = Command::new("systemd-run");
        scoped.args(["--user", "--scope", "--quiet", "--collect", "--"]).arg(program).args(arguments);
        commands.push(scoped);
    }
    let mut plain = Command::new(program);
    plain.args(arguments);
    commands.push(plain);
    commands
}

fn has_user_manager() -> bool {
    std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).join("systemd/private").exists())
}

/// Called by the guard in itself: a session of its own, so that a closing terminal or a signal to the core's group
/// passes it by, and deaf to what asks it to end before the core has. It ends by itself once the core does.
pub(crate) fn detach_guard() {
    if let Err(error) = rustix::process::setsid() {
        // Already the leader of a session: as good.
        tracing::debug!(%error, "no session of its own for the guard");
    }
    super::signals::ignore_requests_to_end();
}
