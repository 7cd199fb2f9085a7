//! Shadowsocks: the AEAD methods (SIP004, SIP007) and the 2022 edition (SIP022, with extensible
//! identity headers), TCP and UDP, both sides.

mod client;
mod keys;
mod packet;
mod packet_server;
mod server;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::aead::Cipher;

pub use client::{Client, ClientOpen};
pub use keys::{KeyError, Keys};
pub use packet::{PacketClient, PacketError};
pub use packet_server::{Incoming, PacketServer, SessionId};
pub use server::{Accepted, RequestError, Server, ServerSeal, Step};
pub use stream::{StreamOpen, StreamSeal};

/// How far clocks may differ with a 2022 method, seconds.
pub const CLOCK_TOLERANCE: u64 = 30;

/// The most payload of one datagram: what fits a UDP packet with every header of ours.
pub const MAX_DATAGRAM: usize = 65_507 - 400;

/// Tells Unix time in seconds. The 2022 methods stamp and check messages long after a stream began.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// aes-128-gcm.
    Aes128Gcm,
    /// aes-256-gcm.
    Aes256Gcm,
    /// chacha20-ietf-poly1305.
    ChaCha20IetfPoly1305,
    /// 2022-blake3-aes-128-gcm.
    Blake3Aes128Gcm,
    /// 2022-blake3-aes-256-gcm.
    Blake3Aes256Gcm,
    /// 2022-blake3-chacha20-poly1305.
    Blake3ChaCha20Poly1305,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 6] = [
        Self::Aes128Gcm,
        Self::Aes256Gcm,
        Self::ChaCha20IetfPoly1305,
        Self::Blake3Aes128Gcm,
        Self::Blake3Aes256Gcm,
        Self::Blake3ChaCha20Poly1305,
    ];

    /// The method of this name, in the spellings that are in use.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "chacha20-poly1305" => Some(Self::ChaCha20IetfPoly1305),
            "2022-blake3-chacha20-ietf-poly1305" => Some(Self::Blake3ChaCha20Poly1305),
            name => Self::ALL.into_iter().find(|method| method.name() == name),
        }
    }

    /// Its canonical name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20IetfPoly1305 => "chacha20-ietf-poly1305",
            Self::Blake3Aes128Gcm => "2022-blake3-aes-128-gcm",
            Self::Blake3Aes256Gcm => "2022-blake3-aes-256-gcm",
            Self::Blake3ChaCha20Poly1305 => "2022-blake3-chacha20-poly1305",
        }
    }

    /// Whether it is one of the 2022 edition.
    pub const fn is_2022(self) -> bool {
        matches!(self, Self::Blake3Aes128Gcm | Self::Blake3Aes256Gcm | Self::Blake3ChaCha20Poly1305)
    }

    /// Length of keys and salts, bytes.
    pub const fn key_length(self) -> usize {
        self.cipher().key_length()
    }

    pub(crate) const fn cipher(self) -> Cipher {
        match self {
            Self::Aes128Gcm | Self::Blake3Aes128Gcm => Cipher::Aes128Gcm,
            Self::Aes256Gcm | Self::Blake3Aes256Gcm => Cipher::Aes256Gcm,
            Self::ChaCha20IetfPoly1305 | Self::Blake3ChaCha20Poly1305 => Cipher::ChaCha20Poly1305,
        }
    }

    /// Whether it has identity headers and a separate UDP header.
    const fn has_block_cipher(self) -> bool {
        matches!(self, Self::Blake3Aes128Gcm | Self::Blake3Aes256Gcm)
    }
}
