//! Windows.

pub(crate) mod autostart;
pub(crate) mod process;
mod proxy;
mod proxy_values;
mod tables;
mod wininet;

use std::ffi::OsString;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::system_proxy::Backend;

pub(crate) use crate::network_changes::polling as network_changes;

const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
const CREATE_BREAKAWAY_FROM_JOB: u32 = 0x0100_0000;
const CREATE_NO_WINDOW: u32 = 0x0800_0000;

pub(crate) fn proxy_backends() -> Vec<Box<dyn Backend>> {
    vec![Box::new(proxy::WinInet)]
}

pub(crate) fn proxy_backend(name: &str) -> Option<Box<dyn Backend>> {
    (name == proxy::NAME).then(|| Box::new(proxy::WinInet) as Box<dyn Backend>)
}

/// Out of the core's job where the job allows it, since ending a job ends all in it.
pub(crate) fn detached_commands(program: &Path, arguments: &[OsString]) -> Vec<Command> {
    [CREATE_BREAKAWAY_FROM_JOB, 0]
        .map(|breakaway| {
            let mut command = Command::new(program);
            command.args(arguments).creation_flags(CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP | breakaway);
            command
        })
        .into()
}

/// Called by the guard in itself; a process without a console in a group of its own hears no Ctrl+C.
pub(crate) fn detach_guard() {}
