//! Byte formats and state machines of the protocols that Culvert speaks.
//!
//! This crate is pure: bytes and values in, bytes and values out. It opens no socket, reads no
//! clock and draws no global randomness; time and random bytes come in as arguments
//! ([`random::Random`]).

pub mod address;
pub mod address_form;
mod aead;
pub mod chunk;
pub mod http;
pub mod mux;
pub mod preamble;
pub mod random;
pub mod reality;
pub mod replay;
pub mod shadowsocks;
pub mod socks;
pub mod tls;
pub mod trojan;
pub mod user_id;
pub mod vision;
pub mod vless;
pub mod vmess;
pub mod websocket;

pub use address::{Destination, Host, Network};
