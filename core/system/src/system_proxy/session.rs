//! One core's hold on the system proxy: lock, journal, guard, then the change.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::journal::{Journal, Stored};
use super::lock::Lock;
use super::plan::{self, Entry};
use super::{Backend, BackendError, Change, ProxyTarget, Role, Values};
use crate::guard::{GuardCommand, GuardError, Keeper};

/// How long we wait for a guard, or a core that is just going, to put its values back.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Why the system proxy could not be switched.
#[derive(Debug, thiserror::Error)]
pub enum SystemProxyError {
    /// No setting we know on this desktop.
    #[error("this desktop has no proxy setting that Culvert knows; point programs at {0} by hand")]
    NoDesktop(String),
    /// Another core holds the setting.
    #[error("another Culvert core (process {0}) holds the system proxy; stop it first")]
    Held(u32),
    /// None of the desktop's settings could be changed.
    #[error("the system proxy could not be changed: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Backends(Vec<Problem>),
    /// The guard didn't come up; without it nothing is changed.
    #[error("the guard of the system proxy did not start, so nothing was changed: {0}")]
    Guard(#[from] GuardError),
    /// The journal could not be written or read.
    #[error("the journal of the system proxy in {directory}: {source}")]
    Journal {
        /// The state folder.
        directory: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
}

/// A backend that did not do its part.
#[derive(Debug, thiserror::Error)]
#[error("{backend}: {error}")]
pub struct Problem {
    /// Name of the backend.
    pub backend: String,
    /// What went wrong.
    pub error: BackendError,
}

/// What [`SystemProxy::enable`] reached.
#[derive(Debug)]
pub struct Enabled {
    /// The backends that point at us now; at least one.
    pub backends: Vec<&'static str>,
    /// Backends of this desktop that could not be changed; the others are.
    pub problems: Vec<Problem>,
}

/// What putting back came to.
#[derive(Debug, Default)]
pub struct Restored {
    /// How many values were put back.
    pub values: usize,
    /// Keys that someone else has changed meanwhile and that therefore stay (`backend/key`).
    pub foreign: Vec<String>,
    /// Backends that failed; the journal is kept for the next try.
    pub problems: Vec<Problem>,
}

/// What the start of a core found.
#[derive(Debug)]
pub enum Repair {
    /// Nothing of ours was left.
    Nothing,
    /// A core that lives holds the setting.
    HeldByOther,
    /// A power cut or a double kill had left values of ours; they are gone.
    Restored(Restored),
    /// The journal was damaged and has been put aside. Settings that pointed at a dead port of this machine were
    /// switched off; `cleared` names their backends.
    Damaged {
        /// Where the damaged file is now.
        aside: PathBuf,
        /// Backends that were switched off.
        cleared: Vec<&'static str>,
    },
}

/// What is known about our setting at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// We have not set anything.
    Off,
    /// The setting is ours.
    On {
        /// A guard watches over us.
        guarded: bool,
        /// Keys that someone else has changed since (`backend/key`); empty when all is as we set it.
        changed_by_others: Vec<String>,
    },
}

/// The system proxy, for one core. All calls block, for at most some seconds. Dropping it puts the values back.
pub struct SystemProxy {
    directory: PathBuf,
    backends: Vec<Box<dyn Backend>>,
    guard: GuardCommand,
    active: Option<Active>,
}

struct Active {
    _lock: Lock,
    owner: String,
    generation: u64,
    entries: Vec<Entry>,
    keeper: Option<Keeper>,
}

impl SystemProxy {
    /// For this desktop, with the present program as its own guard (`PROGRAM guard …` must call
    /// [`crate::guard::run`]). `state_directory` must exist, on a disk that survives a restart.
    #[must_use]
    pub fn new(state_directory: PathBuf) -> Self {
        Self::with(state_directory, super::backends(), GuardCommand::this_program())
    }

    /// With chosen backends and guard.
    #[must_use]
    pub fn with(state_directory: PathBuf, backends: Vec<Box<dyn Backend>>, guard: GuardCommand) -> Self {
        Self { directory: state_directory, backends, guard, active: None }
    }

    /// Points the desktop at `target`. May be called again with another target; the values that are put back in the
    /// end are those from before the first call.
    ///
    /// # Errors
    /// When no setting could be changed, the guard didn't start, or another core holds the setting. Nothing is
    /// changed then.
    pub fn enable(&mut self, target: &ProxyTarget) -> Result<Enabled, SystemProxyError> {
        if self.backends.is_empty() {
            return Err(SystemProxyError::NoDesktop(SocketAddr::new(target.host, target.port).to_string()));
        }
        let mut active = match self.active.take() {
            Some(active) => active,
            None => self.acquire()?,
        };
        let result = self.switch(&mut active, target);
        let undo = result.is_err();
        self.active = Some(active);
        if undo {
            self.give_up();
        }
        result
    }

    /// Puts back what was there before us. Nothing happens when nothing of ours is set.
    ///
    /// # Errors
    /// When the journal can't be removed. A backend that fails is reported in [`Restored::problems`]; the journal
    /// stays then, and the next start tries again.
    pub fn disable(&mut self) -> Result<Restored, SystemProxyError> {
        let Some(mut active) = self.active.take() else {
            return Ok(Restored::default());
        };
        let restored = settle(&self.directory, &active.entries, |name| self.named(name))
            .map_err(|source| self.journal_error(source))?;
        if let Some(keeper) = active.keeper.take() {
            keeper.stop();
        }
        Ok(restored)
    }

    /// Whether our setting stands. Reads the desktop's values.
    ///
    /// # Errors
    /// When no backend can be read.
    pub fn status(&self) -> Result<Status, SystemProxyError> {
        let Some(active) = &self.active else {
            return Ok(Status::Off);
        };
        let mut changed_by_others = Vec::new();
        let mut problems = Vec::new();
        for backend in
            self.backends.iter().filter(|backend| active.entries.iter().any(|entry| entry.backend == backend.name()))
        {
            match backend.read() {
                Ok(present) => changed_by_others.extend(
                    active
                        .entries
                        .iter()
                        .filter(|entry| {
                            entry.backend == backend.name() && !entry.ours.contains(&present.get(&entry.key).cloned())
                        })
                        .map(|entry| format!("{}/{}", entry.backend, entry.key)),
                ),
                Err(error) => problems.push(Problem { backend: backend.name().into(), error }),
            }
        }
        if problems.is_empty() {
            Ok(Status::On { guarded: active.keeper.as_ref().is_some_and(Keeper::is_guarded), changed_by_others })
        } else {
            Err(SystemProxyError::Backends(problems))
        }
    }

    /// Puts right what a power cut, or a kill of core and guard both, has left. To be called once at the start of
    /// every core, before anything else.
    ///
    /// # Errors
    /// When the journal can't be read or removed.
    pub fn repair_at_start(&mut self) -> Result<Repair, SystemProxyError> {
        if self.active.is_some() {
            return Ok(Repair::Nothing);
        }
        match Journal::load(&self.directory).map_err(|source| self.journal_error(source))? {
            Stored::Nothing => return Ok(Repair::Nothing),
            Stored::Journal(_) | Stored::Damaged(_) => {}
        }
        // The lock is free unless a core lives, or its guard is at work this very moment.
        let Some(_lock) = self.lock(Duration::from_millis(500))? else {
            return Ok(Repair::HeldByOther);
        };
        match Journal::load(&self.directory).map_err(|source| self.journal_error(source))? {
            Stored::Nothing => Ok(Repair::Nothing),
            Stored::Journal(journal) => settle(&self.directory, &journal.entries, |name| self.named(name))
                .map(Repair::Restored)
                .map_err(|source| self.journal_error(source)),
            Stored::Damaged(why) => self.clear_damaged(&why),
        }
    }

    fn acquire(&self) -> Result<Active, SystemProxyError> {
        let Some(lock) = self.lock(LOCK_WAIT)? else {
            let holder = match Journal::load(&self.directory) {
                Ok(Stored::Journal(journal)) => journal.owner_pid,
                Ok(Stored::Nothing | Stored::Damaged(_)) | Err(_) => 0,
            };
            return Err(SystemProxyError::Held(holder));
        };
        let (generation, entries) = match Journal::load(&self.directory).map_err(|source| self.journal_error(source))? {
            Stored::Nothing => (1, Vec::new()),
            // A core has died and its guard too, or we were faster than the guard: its values are ours to keep now.
            Stored::Journal(journal) => (journal.generation.saturating_add(1), journal.entries),
            Stored::Damaged(why) => {
                self.clear_damaged(&why)?;
                (1, Vec::new())
            }
        };
        Ok(Active { _lock: lock, owner: owner_token(), generation, entries, keeper: None })
    }

    fn switch(&self, active: &mut Active, target: &ProxyTarget) -> Result<Enabled, SystemProxyError> {
        let mut problems = Vec::new();
        let mut planned: Vec<(&dyn Backend, Vec<Change>)> = Vec::new();
        // Entries of backends that this session doesn't use stay in the journal for one that does.
        let mut entries: Vec<Entry> = active
            .entries
            .iter()
            .filter(|entry| self.backends.iter().all(|backend| backend.name() != entry.backend))
            .cloned()
            .collect();
        for backend in &self.backends {
            match backend.read() {
                Ok(present) => {
                    let (mine, changes) = plan_backend(backend.as_ref(), target, &present, &active.entries);
                    entries.extend(mine);
                    planned.push((backend.as_ref(), changes));
                }
                Err(error) => {
                    entries.extend(active.entries.iter().filter(|entry| entry.backend == backend.name()).cloned());
                    problems.push(Problem { backend: backend.name().into(), error });
                }
            }
        }
        if planned.is_empty() {
            return Err(SystemProxyError::Backends(problems));
        }

        active.entries = entries;
        self.store(active)?;
        if active.keeper.is_none() {
            active.keeper = Some(Keeper::start(self.guard.clone(), self.directory.clone(), active.owner.clone())?);
        }

        let mut done = Vec::new();
        for (backend, changes) in planned {
            match backend.write(&changes) {
                Ok(()) => done.push(backend.name()),
                Err(error) => {
                    // Half a change is worse than none: what was written of it goes back at once.
                    let name = backend.name();
                    if let Err(again) = put_back(backend, &active.entries) {
                        tracing::warn!(backend = name, error = %again, "a failed change of the system proxy could not be undone yet");
                    }
                    problems.push(Problem { backend: name.into(), error });
                }
            }
        }
        if done.is_empty() {
            return Err(SystemProxyError::Backends(problems));
        }
        // From here on only the newest values are ours.
        if active.entries.iter().any(|entry| entry.ours.len() > 1) {
            for entry in &mut active.entries {
                let newest = entry.ours.pop();
                entry.ours.clear();
                entry.ours.extend(newest);
            }
            self.store(active)?;
        }
        Ok(Enabled { backends: done, problems })
    }

    /// After a failed [`Self::enable`]: back to where we were, as far as it goes.
    fn give_up(&mut self) {
        match self.disable() {
            Ok(restored) => {
                for problem in restored.problems {
                    tracing::warn!(%problem, "the system proxy could not be put back yet; the next start tries again");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the system proxy could not be put back yet; the next start tries again")
            }
        }
    }

    fn clear_damaged(&self, why: &str) -> Result<Repair, SystemProxyError> {
        tracing::warn!(%why, "the journal of the system proxy is damaged");
        let mut cleared = Vec::new();
        for backend in &self.backends {
            let outcome = backend.read().and_then(|present| match backend.endpoint(&present) {
                Some(address) if is_dead_local_port(address) => backend.write(&backend.off(&present)).map(|()| true),
                Some(_) | None => Ok(false),
            });
            match outcome {
                Ok(true) => cleared.push(backend.name()),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(backend = backend.name(), %error, "the system proxy could not be looked at")
                }
            }
        }
        let aside = Journal::put_aside(&self.directory).map_err(|source| self.journal_error(source))?;
        Ok(Repair::Damaged { aside, cleared })
    }

    fn store(&self, active: &Active) -> Result<(), SystemProxyError> {
        Journal::new(active.generation, active.owner.clone(), active.entries.clone())
            .store(&self.directory)
            .map_err(|source| self.journal_error(source))
    }

    fn lock(&self, limit: Duration) -> Result<Option<Lock>, SystemProxyError> {
        Lock::take(&self.directory, limit).map_err(|source| self.journal_error(source))
    }

    fn journal_error(&self, source: std::io::Error) -> SystemProxyError {
        SystemProxyError::Journal { directory: self.directory.clone(), source }
    }

    /// A backend of ours by name, or the system's when the journal came from another session.
    fn named(&self, name: &str) -> Option<BackendRef<'_>> {
        self.backends
            .iter()
            .find(|backend| backend.name() == name)
            .map(|backend| BackendRef::Borrowed(backend.as_ref()))
            .or_else(|| super::backend(name).map(BackendRef::Owned))
    }
}

impl Drop for SystemProxy {
    fn drop(&mut self) {
        if self.active.is_some() {
            self.give_up();
        }
    }
}

impl std::fmt::Debug for SystemProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemProxy")
            .field("directory", &self.directory)
            .field("backends", &self.backends.iter().map(|backend| backend.name()).collect::<Vec<_>>())
            .field("active", &self.active.is_some())
            .finish_non_exhaustive()
    }
}

/// A backend that is ours or was looked up.
pub(crate) enum BackendRef<'a> {
    Borrowed(&'a dyn Backend),
    Owned(Box<dyn Backend>),
}

impl BackendRef<'_> {
    fn get(&self) -> &dyn Backend {
        match self {
            Self::Borrowed(backend) => *backend,
            Self::Owned(backend) => backend.as_ref(),
        }
    }
}

/// Puts back all entries and takes the journal away when that worked. Whoever calls holds the lock.
pub(crate) fn settle<'a>(
    directory: &Path,
    entries: &[Entry],
    find: impl Fn(&str) -> Option<BackendRef<'a>>,
) -> std::io::Result<Restored> {
    let mut names: Vec<&str> = Vec::new();
    for entry in entries {
        if !names.contains(&entry.backend.as_str()) {
            names.push(&entry.backend);
        }
    }
    let mut restored = Restored::default();
    for name in names {
        let Some(backend) = find(name) else {
            tracing::warn!(
                backend = name,
                "the journal of the system proxy names a setting that this system doesn't have"
            );
            continue;
        };
        match put_back(backend.get(), entries) {
            Ok((values, foreign)) => {
                restored.values += values;
                restored.foreign.extend(foreign.into_iter().map(|key| format!("{name}/{key}")));
            }
            Err(error) => restored.problems.push(Problem { backend: name.to_owned(), error }),
        }
    }
    if restored.problems.is_empty() {
        Journal::remove(directory)?;
    }
    Ok(restored)
}

fn put_back(backend: &dyn Backend, entries: &[Entry]) -> Result<(usize, Vec<String>), BackendError> {
    let present = backend.read()?;
    let restoration = plan::restoration(&entries.iter().filter(|entry| entry.backend == backend.name()), &present);
    if !restoration.changes.is_empty() {
        backend.write(&restoration.changes)?;
    }
    Ok((restoration.changes.len(), restoration.foreign))
}

fn plan_backend(
    backend: &dyn Backend,
    target: &ProxyTarget,
    present: &Values,
    old: &[Entry],
) -> (Vec<Entry>, Vec<Change>) {
    let wanted = backend.wanted(target, present);
    let changes = wanted
        .iter()
        .map(|wanted| wanted.change.clone())
        .filter(|change| present.get(&change.key) != change.value.as_ref())
        .collect();
    let mut entries = plan::entries(backend.name(), wanted, present, old);
    // The setting points at our port already, and no journal knows why: putting *that* back would leave the desktop
    // pointing at nothing. "Off" is the best guess at what was there.
    let unknown = !old.iter().any(|entry| entry.backend == backend.name());
    if unknown && backend.endpoint(present) == Some(SocketAddr::new(target.host, target.port)) {
        for off in backend.off(present) {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.key == off.key && entry.role == Role::Switch) {
                entry.previous = off.value;
            }
        }
    }
    (entries, changes)
}

fn is_dead_local_port(address: SocketAddr) -> bool {
    address.ip().is_loopback() && TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_err()
}

/// Names this core and moment; no two cores share it.
fn owner_token() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_nanos())
}
