//! Inbounds: where flows come from.

mod flow;
pub mod mixed;
mod shards;
#[cfg(target_os = "linux")]
pub mod tun;

pub use flow::{Client, Dispatch, Flow, Refusal};
pub use shards::Shards;
