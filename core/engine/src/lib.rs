//! Puts the core together: dispatcher, connections, tests, store.

pub mod demo;
pub mod dispatch;
pub mod engine;
pub mod fetch;
pub mod flows;
pub mod import;
pub mod keys;
pub mod leave;
pub mod logs;
pub mod measure;
pub mod net;
pub mod origin;
mod problem;
pub mod proxied;
pub mod real;
pub mod router;
pub mod rules;
pub mod runs;
pub mod store;
mod summary;
#[cfg(target_os = "linux")]
pub mod tunnel;

pub use engine::{Engine, Parts};
