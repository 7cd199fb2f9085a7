//! The commands, one a file.

pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod guard;
pub(crate) mod parse;
pub(crate) mod probe;
pub(crate) mod run;
pub(crate) mod serve;
mod signal;
