//! Byte formats and state machines of the protocols that Culvert speaks.
//!
//! This crate is pure: bytes and values in, bytes and values out. It opens no socket, reads no
//! clock and draws no global randomness; time and random bytes come in as arguments
//! ([`random::Random`]).

pub mod address;
pub mod chunk;
pub mod random;
pub mod reality;
pub mod socks;
pub mod tls;
pub mod vision;
pub mod websocket;

pub use address::{Destination, Host, Network};
