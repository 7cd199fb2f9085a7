//! Linux.

pub mod channel;
pub mod client;
pub mod firewall;
mod journal;
mod netlink;
pub mod protect;
mod routing;
pub mod tun;
pub mod tunnel;

pub use routing::Prefix;
