//! Harness for tests against real peers: processes, ports, namespaces, payloads.

#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
pub mod tun_relay;
pub mod xray;
pub mod exercise;
pub mod peer;
pub mod target;
