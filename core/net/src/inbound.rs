//! Inbounds: where flows come from.

pub mod tun;
