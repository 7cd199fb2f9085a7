//! Runs a small program of the desktop, with a limit on its time and its output.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::system_proxy::BackendError;

const LIMIT: Duration = Duration::from_secs(5);
const LIMIT_BYTES: u64 = 1 << 20;

/// Runs `command` and returns what it printed. `what` names it in errors.
pub(crate) fn run(what: &'static str, command: &mut Command) -> Result<String, BackendError> {
    let failed = |why: String| BackendError::Failed { what, why };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| BackendError::Unavailable { what, why: error.to_string() })?;
    let output = child.stdout.take().map(collect);
    let errors = child.stderr.take().map(collect);
    let end = Instant::now() + LIMIT;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            outcome => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(match outcome {
                    Err(error) => error.to_string(),
                    Ok(_) => format!("it did not end within {LIMIT:?}"),
                }));
            }
        }
    };
    let text = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        String::from_utf8_lossy(&reader.and_then(|reader| reader.join().ok()).unwrap_or_default()).into_owned()
    };
    let (output, errors) = (text(output), text(errors));
    if status.success() { Ok(output) } else { Err(failed(format!("{status}: {}", errors.trim()))) }
}

fn collect(source: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // What was read before a failure is still worth showing.
        let _ = source.take(LIMIT_BYTES).read_to_end(&mut text);
        text
    })
}
