//! Linux.

pub mod tun;
