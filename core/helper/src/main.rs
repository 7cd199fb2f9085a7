//! The privileged helper: a closed list of typed operations for the users named at its
//! installation. It opens no file that a caller names, runs no command for a caller, and parses
//! nothing of a caller's but the messages of `culvert-helper-protocol`.

#[cfg(target_os = "linux")]
mod install;
#[cfg(target_os = "linux")]
mod service;
#[cfg(target_os = "linux")]
mod session;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

const USAGE: &str = "\
usage: culvert-helper COMMAND
  install [UID]  install the helper as a service for this user (default: who called sudo or pkexec)
  status         say whether it is installed and answers
  repair         undo what a tunnel left that was never closed
  release        take the kill switch away
  uninstall      take the service away
  serve          the service itself";

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::io::Write;

    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["install"] => install::caller().and_then(install::install),
        ["install", user] => install::user(user).and_then(install::install),
        ["status"] => install::status(),
        ["repair"] => install::repair(),
        ["release"] => install::release(),
        ["uninstall"] => install::uninstall(),
        ["serve"] => install::serve(),
        _ => {
            let _ = writeln!(std::io::stderr(), "{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(text) => {
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "culvert-helper: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    use std::io::Write;

    let _ = writeln!(std::io::stderr(), "culvert-helper: there is no helper for this system yet\n{USAGE}");
    ExitCode::FAILURE
}
