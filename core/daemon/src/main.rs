//! The core: command line and service.

mod cli;
mod commands;
mod input;
mod logging;
mod output;
mod place;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Arguments, Command};

/// Exit status when what was asked for failed.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    // The guard must be light and must not fail on an argument that it does not know.
    if words.nth(1).is_some_and(|word| word == "guard") {
        return commands::guard::run(words);
    }
    // clap ends the process with status 2 for bad usage.
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            output::note(&format!("culvert-core: {error:#}"));
            let usage = error.downcast_ref::<input::BadUsage>().is_some();
            ExitCode::from(if usage { 2 } else { FAILED })
        }
    }
}

/// Runs a command. `Ok(false)` is a failure that has been reported already.
fn run(arguments: Arguments) -> anyhow::Result<bool> {
    let Arguments { json, command } = arguments;
    if let Command::Parse(arguments) = command {
        return commands::parse::run(&arguments, json);
    }
    #[cfg(target_os = "linux")]
    if let Command::Bench(arguments) = &command {
        return commands::bench::run(arguments, json);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(if matches!(command, Command::Demo(_) | Command::Probe(_)) { 2 } else { 1 })
        .max_blocking_threads(16)
        .thread_name("culvert-control")
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Parse(arguments) => commands::parse::run(&arguments, json),
            Command::Run(arguments) => commands::run::run(arguments, json).await,
            Command::Serve(arguments) => commands::serve::run(arguments, json).await,
            Command::Ctl(arguments) => commands::ctl::run(arguments, json).await,
            Command::Probe(arguments) => commands::probe::run(arguments, json).await,
            Command::Demo(arguments) => commands::demo::run(arguments, json).await,
            #[cfg(target_os = "linux")]
            Command::Bench(arguments) => commands::bench::run(&arguments, json),
        }
    });
    // A thread that waits for the desktop must not hold the end up.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    outcome
}
