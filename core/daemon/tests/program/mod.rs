//! The built program, started and ended by tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by them")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long anything may take here.
const LIMIT: Duration = Duration::from_secs(60);

/// The core, with this user's desktop out of its reach.
pub(crate) fn core() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_culvert-core"));
    command.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command
}

/// What a program left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs to the end.
pub(crate) fn run(command: &mut Command, input: &str) -> Done {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let mut stderr = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let mut stdout = String::new();
    let _ = child.stdout.take().unwrap().read_to_string(&mut stdout);
    let status = wait(&mut child);
    Done { status, stdout, stderr: errors.join().unwrap() }
}

fn wait(child: &mut Child) -> i32 {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("the program did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running program; killed when dropped.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output.
    pub(crate) fn line(&mut self) -> String {
        self.lines.recv_timeout(LIMIT).expect("the program says nothing")
    }

    /// The next line; `nudge` is called again and again until it comes.
    pub(crate) fn line_while(&mut self, mut nudge: impl FnMut()) -> String {
        let started = Instant::now();
        loop {
            nudge();
            match self.lines.recv_timeout(Duration::from_millis(200)) {
                Ok(line) => return line,
                Err(RecvTimeoutError::Timeout) => assert!(started.elapsed() < LIMIT, "the program says nothing"),
                Err(RecvTimeoutError::Disconnected) => panic!("the program ended"),
            }
        }
    }

    /// Asks it to end (SIGTERM) and waits.
    #[cfg(unix)]
    pub(crate) fn end(self) -> Done {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.wait()
    }

    /// Waits for its own end.
    pub(crate) fn wait(mut self) -> Done {
        let status = wait(&mut self.child);
        Done { status, stdout: self.lines.try_iter().collect(), stderr: String::new() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
