//! The commands, one a file.

#[cfg(target_os = "linux")]
pub(crate) mod bench;
pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod guard;
pub(crate) mod parse;
pub(crate) mod probe;
pub(crate) mod run;
pub(crate) mod serve;
mod signal;
