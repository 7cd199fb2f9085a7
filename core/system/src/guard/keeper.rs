//! The core's side of the guard: starts it, waits for its word, and starts another when it dies.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{GuardCommand, GuardError, QUIT, READY};

/// A loaded machine may take its time to start a process; nothing is changed before.
const READY_WITHIN: Duration = Duration::from_secs(15);
/// A dismissed guard ends at once; one that doesn't is stopped.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// Guards that die sooner than this after their start are started again ever more slowly.
const SHORT_LIFE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Keeps one guard alive, until stopped.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    finished: Receiver<()>,
}

struct Shared {
    stopping: AtomicBool,
    guarded: AtomicBool,
    running: Mutex<Option<Running>>,
}

struct Running {
    child: Child,
    input: ChildStdin,
}

impl Keeper {
    /// Starts a guard and waits until it is ready.
    pub(crate) fn start(command: GuardCommand, state: PathBuf, owner: String) -> Result<Self, GuardError> {
        let shared = Arc::new(Shared {
            stopping: AtomicBool::new(false),
            guarded: AtomicBool::new(false),
            running: Mutex::new(None),
        });
        let (ready, is_ready) = sync_channel(1);
        let (finish, finished) = sync_channel(1);
        let keeper = Self { shared: Arc::clone(&shared), finished };
        std::thread::Builder::new().name("guard-keeper".into()).spawn(move || {
            keep(&shared, &command, &state, &owner, &ready);
            // Nobody listens any more when the keeper wasn't stopped but dropped.
            let _ = finish.send(());
        })?;
        match is_ready.recv_timeout(READY_WITHIN) {
            Ok(Ok(())) => Ok(keeper),
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => Err(GuardError::Slow(READY_WITHIN)),
            Err(RecvTimeoutError::Disconnected) => Err(GuardError::NotReady),
        }
    }

    /// Whether a guard is on watch at this moment.
    pub(crate) fn is_guarded(&self) -> bool {
        self.shared.guarded.load(Ordering::Acquire)
    }

    /// Dismisses the guard and waits until it is gone.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        match self.shared.running().as_mut() {
            Some(running) => {
                // A guard that is gone already needs no word.
                let _ = writeln!(running.input, "{QUIT}").and_then(|()| running.input.flush());
            }
            // None is running: the keeper is about to end, or rests before it would start another.
            None => return,
        }
        if self.finished.recv_timeout(GONE_WITHIN).is_err()
            && let Some(running) = self.shared.running().as_mut()
        {
            let _ = running.child.kill();
        }
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

fn keep(
    shared: &Shared,
    command: &GuardCommand,
    state: &std::path::Path,
    owner: &str,
    ready: &SyncSender<Result<(), GuardError>>,
) {
    let mut pause = Duration::from_millis(50);
    let mut first = true;
    while !shared.stopping() {
        let started = Instant::now();
        match start_one(shared, command.commands(state, owner), owner) {
            Ok(output) => {
                shared.guarded.store(true, Ordering::Release);
                // A full channel means that the core has its answer already.
                let _ = ready.try_send(Ok(()));
                first = false;
                wait_for_end(output);
                shared.guarded.store(false, Ordering::Release);
                reap(shared);
            }
            Err(error) if first => {
                let _ = ready.try_send(Err(error));
                return;
            }
            Err(error) => tracing::warn!(%error, "the guard of the system proxy can't be started again"),
        }
        if shared.stopping() {
            return;
        }
        tracing::warn!("the guard of the system proxy is gone; starting another");
        if started.elapsed() < SHORT_LIFE {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        } else {
            pause = Duration::from_millis(50);
        }
    }
}

fn start_one(shared: &Shared, commands: Vec<Command>, owner: &str) -> Result<BufReader<ChildStdout>, GuardError> {
    let mut last = GuardError::NotReady;
    for mut command in commands {
        let program = PathBuf::from(command.get_program());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(source) => {
                last = GuardError::Start { program, source };
                continue;
            }
        };
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(GuardError::NotReady);
        };
        *shared.running() = Some(Running { child, input });
        if shared.stopping() {
            // We were stopped while it started: nobody has told it.
            reap(shared);
            break;
        }
        let mut output = BufReader::new(output);
        if is_ready(&mut output, owner) {
            return Ok(output);
        }
        last = GuardError::NotReady;
        reap(shared);
        if shared.stopping() {
            break;
        }
    }
    Err(last)
}

fn is_ready(output: &mut BufReader<ChildStdout>, owner: &str) -> bool {
    let mut line = String::new();
    // A line of a stranger's program can't grow without end.
    matches!(std::io::Read::take(output, 4096).read_line(&mut line), Ok(length) if length > 0)
        && line.trim_end().strip_prefix(READY).is_some_and(|rest| rest.trim_start() == owner)
}

fn wait_for_end(mut output: BufReader<ChildStdout>) {
    // It says nothing more; the end of its output is its end.
    let _ = std::io::copy(&mut output, &mut std::io::sink());
}

fn reap(shared: &Shared) {
    let running = shared.running().take();
    if let Some(Running { mut child, input }) = running {
        drop(input);
        // It has closed its output, so it is gone or about to go.
        let _ = child.wait();
    }
}
