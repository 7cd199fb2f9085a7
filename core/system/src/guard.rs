//! The guard: a small process that outlives the core and puts the system proxy back when the core dies, for
//! whatever reason.
//!
//! It is the core's own program, started as `PROGRAM guard --state FOLDER --owner TOKEN`, and it holds the other end
//! of a pipe. It says `ready` once it has seen the journal and is sure it could act; only then the core changes
//! anything. `quit` on the pipe ends it; the end of the pipe without that word means that the core is gone. It acts
//! only under the lock and only while the journal still names its owner: a new core may have taken over.

mod keeper;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) use keeper::Keeper;

use crate::system_proxy::Backend;
use crate::system_proxy::journal::{Journal, Stored};
use crate::system_proxy::{lock_for_guard, settle_for_guard};

/// First word of the answer of a guard that is ready; the owner's token follows.
const READY: &str = "culvert-guard-ready";
/// What tells a guard that the core has put everything back itself.
const QUIT: &str = "quit";
/// A backend that fails (the session bus is just going, say) is tried again so many times.
const ATTEMPTS: u32 = 5;

/// Why there is no guard.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The arguments were not those of a guard.
    #[error("usage: guard --state FOLDER --owner TOKEN")]
    Usage,
    /// The process could not be started.
    #[error("{program} can't be started: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// It ended, or said something else than that it is ready.
    #[error("it ended before it was ready")]
    NotReady,
    /// It said nothing in time.
    #[error("it was not ready within {0:?}")]
    Slow(Duration),
    /// There is no journal of this owner to guard.
    #[error("there is no journal of that owner in the state folder")]
    NoJournal,
    /// A backend named in the journal doesn't exist.
    #[error("there is no system proxy setting named {0}")]
    UnknownBackend(String),
    /// Reading or writing the journal or the pipe.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// What a guard's life came to.
#[derive(Debug, PartialEq, Eq)]
pub enum GuardOutcome {
    /// The core put everything back itself.
    Dismissed,
    /// The core died and another one holds the setting now, or had put it back.
    NothingToDo,
    /// The core died, and the values were put back.
    Restored {
        /// How many values were put back.
        values: usize,
    },
    /// The core died and putting back failed; the journal is left for the next start.
    Failed,
}

/// How the guard is started.
#[derive(Debug, Clone)]
pub struct GuardCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl GuardCommand {
    /// The present program with the argument `guard`.
    #[must_use]
    pub fn this_program() -> Self {
        Self::new(this_executable(), ["guard"])
    }

    /// A program of choice; `--state FOLDER --owner TOKEN` are appended.
    #[must_use]
    pub fn new<A: AsRef<OsStr>>(program: PathBuf, arguments: impl IntoIterator<Item = A>) -> Self {
        Self { program, arguments: arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect() }
    }

    /// The ways to start it, best first: apart from the core's session and resource group where the system allows
    /// it, so that whatever ends the core as a whole doesn't end the guard with it.
    fn commands(&self, state: &std::path::Path, owner: &str) -> Vec<Command> {
        let mut all: Vec<OsString> = self.arguments.clone();
        all.extend(["--state".into(), state.into(), "--owner".into(), owner.into()]);
        let mut commands = crate::os::detached_commands(&self.program, &all);
        for command in &mut commands {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir(state);
        }
        commands
    }
}

/// The program's own file; on Linux one that an update has replaced is still reached through `/proc`.
fn this_executable() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        Ok(_) | Err(_) => PathBuf::from(format!("/proc/{}/exe", std::process::id())),
    }
}

/// Runs the guard in this process, with this system's settings. `arguments` are those after the word `guard`.
///
/// # Errors
/// When it can't do its duty; the core hears of it by the missing answer.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<GuardOutcome, GuardError> {
    run_with(arguments, crate::system_proxy::backend)
}

/// Runs the guard in this process; `find` gives the backends that a journal names.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    arguments: impl IntoIterator<Item = OsString>,
    find: impl Fn(&str) -> Option<Box<dyn Backend>>,
) -> Result<GuardOutcome, GuardError> {
    let (state, owner) = parse(arguments)?;
    crate::os::detach_guard();
    let journal = owned_journal(&state, &owner)?.ok_or(GuardError::NoJournal)?;
    if let Some(entry) = journal.entries.iter().find(|entry| find(&entry.backend).is_none()) {
        return Err(GuardError::UnknownBackend(entry.backend.clone()));
    }
    let told = {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{READY} {owner}").and_then(|()| out.flush())
    };
    // A core that can't be told has died while we started: then there is nothing to wait for.
    if told.is_ok() && wait_for_the_core() {
        return Ok(GuardOutcome::Dismissed);
    }
    act(&state, &owner, find)
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<(PathBuf, String), GuardError> {
    let mut state = None;
    let mut owner = None;
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(GuardError::Usage)?;
        match name.to_str() {
            Some("--state") => state = Some(PathBuf::from(value)),
            Some("--owner") => owner = Some(value.into_string().map_err(|_| GuardError::Usage)?),
            Some(_) | None => return Err(GuardError::Usage),
        }
    }
    state.zip(owner).ok_or(GuardError::Usage)
}

/// True when the core dismisses us, false when it is gone.
fn wait_for_the_core() -> bool {
    let mut line = String::new();
    let mut input = std::io::stdin().lock();
    loop {
        line.clear();
        match input.read_line(&mut line) {
            Ok(0) => return false,
            Ok(_) if line.trim_end() == QUIT => return true,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn act(
    state: &std::path::Path,
    owner: &str,
    find: impl Fn(&str) -> Option<Box<dyn Backend>>,
) -> Result<GuardOutcome, GuardError> {
    let mut pause = Duration::from_millis(5);
    let mut failures = 0;
    loop {
        // Whoever holds the lock is alive and answers for the setting; we only wait to see whether it dies as well.
        let Some(lock) = lock_for_guard(state)? else {
            if owned_journal(state, owner)?.is_none() {
                return Ok(GuardOutcome::NothingToDo);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
            continue;
        };
        let Some(journal) = owned_journal(state, owner)? else {
            return Ok(GuardOutcome::NothingToDo);
        };
        let restored = settle_for_guard(state, &journal.entries, &find)?;
        if restored.problems.is_empty() {
            return Ok(GuardOutcome::Restored { values: restored.values });
        }
        drop(lock);
        failures += 1;
        if failures == ATTEMPTS {
            return Ok(GuardOutcome::Failed);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn owned_journal(state: &std::path::Path, owner: &str) -> Result<Option<Journal>, GuardError> {
    Ok(match Journal::load(state)? {
        Stored::Journal(journal) if journal.owner == owner => Some(journal),
        Stored::Journal(_) | Stored::Nothing | Stored::Damaged(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_guards_arguments_are_taken() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let (state, owner) = parse(words("--owner 1-2 --state /tmp/x")).unwrap();
        assert_eq!((state, owner.as_str()), (PathBuf::from("/tmp/x"), "1-2"));
        for wrong in ["--owner 1-2", "--state", "--state a --owner b --run c", "a b"] {
            assert!(matches!(parse(words(wrong)), Err(GuardError::Usage)), "{wrong}");
        }
    }

    #[test]
    fn without_a_journal_there_is_nothing_to_guard() {
        let folder = tempfile::tempdir().unwrap();
        assert!(owned_journal(folder.path(), "1-2").unwrap().is_none());
        Journal::new(1, "1-2".into(), Vec::new()).store(folder.path()).unwrap();
        assert!(owned_journal(folder.path(), "1-2").unwrap().is_some());
        assert!(owned_journal(folder.path(), "1-3").unwrap().is_none());
    }
}
