//! Inbounds: where flows come from.

pub mod flow;
pub mod mixed;
pub mod peer;
pub mod shards;
pub mod tun;
