//! The log: standard error, and memory for the app's page. Neither holds secrets; server addresses
//! and targets are told at the level debug only.

use culvert_engine::logs::LogBuffer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Starts the log. `CULVERT_LOG` chooses what standard error shows (such as `debug`).
pub(crate) fn start(buffer: Option<LogBuffer>, default: &str) {
    let filter = || EnvFilter::try_from_env("CULVERT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let to_stderr =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false).with_filter(filter());
    let in_memory = buffer.map(|buffer| buffer.with_filter(EnvFilter::new("info")));
    // A second start (there is none) would keep the first.
    let _ = tracing_subscriber::registry().with(to_stderr).with(in_memory).try_init();
}
