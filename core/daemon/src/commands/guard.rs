//! `guard`: the small process that puts the system's proxy setting back when the core dies.

use std::ffi::OsString;
use std::process::ExitCode;

use culvert_system::guard::{self, GuardOutcome};

pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match guard::run(arguments) {
        Ok(GuardOutcome::Failed) => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            crate::output::note(&format!("culvert-core guard: {error}"));
            ExitCode::from(if matches!(error, guard::GuardError::Usage) { 2 } else { 1 })
        }
    }
}
