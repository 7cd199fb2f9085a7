//! VMess with the AEAD header, both sides.
//!
//! The client sends a sealed header that carries the keys of both directions, then body chunks;
//! the server answers with a short sealed header and body chunks of its own. The client talks
//! first and must not wait for the answer: servers send it with the first bytes they have.

mod body;
mod header;
mod kdf;
mod response;
mod server;
#[cfg(test)]
mod tests;

use md5::{Digest, Md5};

use crate::random::Random;
use crate::vmess::kdf::{Label, kdf};

pub use body::{BodyOpen, BodySeal, MAX_PAYLOAD};
pub use header::HeaderError;
pub use response::{ResponseHead, ResponseOpen};
pub use server::{Accepted, RequestError, Server, Step};

/// How far clocks may differ, seconds.
pub const CLOCK_TOLERANCE: u64 = 120;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A TCP stream to the destination.
    Tcp,
    /// Datagrams to the destination, one a chunk.
    Udp,
    /// Mux.Cool frames; no destination.
    Mux,
}

/// The cipher of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// AES-128-GCM.
    Aes128Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
    /// No cipher.
    None,
}

/// Bits of a request's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options(pub u8);

impl Options {
    /// The body is cut into chunks.
    pub const CHUNKED: u8 = 0x01;
    /// Chunk sizes are masked.
    pub const MASKED: u8 = 0x04;
    /// Chunks are padded.
    pub const PADDED: u8 = 0x08;
    /// Chunk sizes are sealed.
    pub const SEALED_LENGTH: u8 = 0x10;

    /// Whether `bit` is set.
    pub const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// How a person wants the body protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// AES-128-GCM.
    Aes128Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
    /// Masked chunks without a cipher.
    None,
    /// The bare bytes (TCP); chunks without a cipher (UDP).
    Zero,
}

impl Protection {
    /// The protection named `text` (`auto` by whether this computer has AES in hardware).
    pub fn parse(text: &str, hardware_aes: bool) -> Option<Self> {
        Some(match text {
            "auto" | "" if hardware_aes => Self::Aes128Gcm,
            "auto" | "" => Self::ChaCha20Poly1305,
            "aes-128-gcm" => Self::Aes128Gcm,
            "chacha20-poly1305" | "chacha20-ietf-poly1305" => Self::ChaCha20Poly1305,
            "none" => Self::None,
            "zero" => Self::Zero,
            _ => return None,
        })
    }

    /// The cipher and options of a request for `command`.
    pub fn options(self, command: Command) -> (Security, Options) {
        let masked = Options::CHUNKED | Options::MASKED;
        match self {
            Self::Aes128Gcm => (Security::Aes128Gcm, Options(masked | Options::PADDED)),
            Self::ChaCha20Poly1305 => (Security::ChaCha20Poly1305, Options(masked | Options::PADDED)),
            // Peers disagree about padding without a cipher, so it is never asked for.
            Self::None => (Security::None, Options(masked)),
            Self::Zero => match command {
                Command::Tcp => (Security::None, Options(0)),
                Command::Udp | Command::Mux => (Security::None, Options(Options::CHUNKED)),
            },
        }
    }
}

/// A user's key with what follows from it.
pub struct UserKey {
    command: [u8; 16],
    auth: aes::Aes128,
}

impl UserKey {
    /// The key of the user with identifier `id`.
    pub fn new(id: &[u8; 16]) -> Self {
        use aes::cipher::KeyInit;
        let mut hash = Md5::new();
        hash.update(id);
        hash.update(b"c48619fe-8f02-49e0-b9e9-edf763e17e21");
        let command: [u8; 16] = hash.finalize().into();
        let auth = kdf(Label::AuthId, &[], &command);
        let mut auth_key = [0; 16];
        auth_key.copy_from_slice(&auth[..16]);
        Self { command, auth: aes::Aes128::new(&auth_key.into()) }
    }
}

/// The keys and options that a request carries; both sides make their body formats from it.
#[derive(Clone)]
pub struct Session {
    key: [u8; 16],
    iv: [u8; 16],
    answer: u8,
    security: Security,
    options: Options,
    command: Command,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("security", &self.security)
            .field("options", &self.options)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Fresh keys for a request.
    pub fn new(random: &mut dyn Random, security: Security, options: Options, command: Command) -> Self {
        let (mut key, mut iv, mut answer) = ([0; 16], [0; 16], [0; 1]);
        random.fill(&mut key);
        random.fill(&mut iv);
        random.fill(&mut answer);
        Self { key, iv, answer: answer[0], security, options, command }
    }

    /// Whether the body is the bare bytes, without chunks.
    pub fn is_raw(&self) -> bool {
        !self.options.has(Options::CHUNKED)
    }

    /// What the client writes with.
    pub fn request_seal(&self) -> BodySeal {
        BodySeal::new(self, &self.key, &self.iv)
    }

    /// What the server reads with.
    pub fn request_open(&self) -> BodyOpen {
        BodyOpen::new(self, &self.key, &self.iv)
    }

    /// What the server writes with, after [`Session::response_head`].
    pub fn response_seal(&self) -> BodySeal {
        let (key, iv) = self.response_keys();
        BodySeal::new(self, &key, &iv)
    }

    /// What the client reads with: the server's header, then the body.
    pub fn response_open(&self) -> ResponseOpen {
        let (key, iv) = self.response_keys();
        ResponseOpen::new(ResponseHead::new(self), BodyOpen::new(self, &key, &iv))
    }

    /// The server's header alone, for a body that is not framed.
    pub fn response_preamble(&self) -> ResponseHead {
        ResponseHead::new(self)
    }

    /// Appends the server's header.
    pub fn response_head(&self, out: &mut Vec<u8>) {
        response::seal(self, out);
    }

    fn response_keys(&self) -> ([u8; 16], [u8; 16]) {
        use sha2::{Digest, Sha256};
        let half = |input: &[u8; 16]| {
            let mut out = [0; 16];
            out.copy_from_slice(&Sha256::digest(input)[..16]);
            out
        };
        (half(&self.key), half(&self.iv))
    }
}
