//! Harness for tests against real peers: processes, ports, namespaces, payloads.

pub mod exercise;
#[cfg(target_os = "linux")]
pub mod netns;
pub mod peer;
pub mod target;
#[cfg(target_os = "linux")]
pub mod tun_relay;
pub mod xray;
