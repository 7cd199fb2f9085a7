//! The nested HMAC by which all keys of the header are derived.
//!
//! `H0` is HMAC-SHA256 under a fixed key; `Hi` is the HMAC construction over `H(i-1)` under the
//! i-th path element. A hasher of level i is therefore 2^(i+1) SHA-256 states: input goes to the
//! first alone, and finishing folds digests from left to right. The states of each label are
//! computed once.

use std::sync::OnceLock;

use sha2::{Digest, Sha256};

/// The first path element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    AuthId,
    HeaderLengthKey,
    HeaderLengthNonce,
    HeaderKey,
    HeaderNonce,
    ResponseLengthKey,
    ResponseLengthNonce,
    ResponseKey,
    ResponseNonce,
    ChunkLength,
}

impl Label {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::AuthId => b"AES Auth ID Encryption",
            Self::HeaderLengthKey => b"VMess Header AEAD Key_Length",
            Self::HeaderLengthNonce => b"VMess Header AEAD Nonce_Length",
            Self::HeaderKey => b"VMess Header AEAD Key",
            Self::HeaderNonce => b"VMess Header AEAD Nonce",
            Self::ResponseLengthKey => b"AEAD Resp Header Len Key",
            Self::ResponseLengthNonce => b"AEAD Resp Header Len IV",
            Self::ResponseKey => b"AEAD Resp Header Key",
            Self::ResponseNonce => b"AEAD Resp Header IV",
            Self::ChunkLength => b"auth_len",
        }
    }
}

const LABELS: usize = 10;
static STATES: [OnceLock<Hasher>; LABELS] = [const { OnceLock::new() }; LABELS];

/// Path elements after the label, at most.
const DEPTH: usize = 2;

#[derive(Clone)]
struct Hasher {
    states: [Sha256; 4 << DEPTH],
    used: usize,
}

impl Hasher {
    fn root() -> Self {
        let mut states: [Sha256; 4 << DEPTH] = Default::default();
        let (inner, outer) = pads(b"VMess AEAD KDF");
        states[0].update(inner);
        states[1].update(outer);
        Self { states, used: 2 }
    }

    /// The HMAC construction over this hasher, under `key` (at most 64 bytes).
    fn keyed(&self, key: &[u8]) -> Self {
        let mut next = self.clone();
        let (inner, outer) = pads(key);
        next.states[self.used..2 * self.used].clone_from_slice(&self.states[..self.used]);
        next.states[0].update(inner);
        next.states[self.used].update(outer);
        next.used = 2 * self.used;
        next
    }

    fn finish(mut self, input: &[u8]) -> [u8; 32] {
        self.states[0].update(input);
        fold(&mut self.states[..self.used])
    }
}

fn pads(key: &[u8]) -> ([u8; 64], [u8; 64]) {
    let (mut inner, mut outer) = ([0x36; 64], [0x5c; 64]);
    for ((i, o), k) in inner.iter_mut().zip(&mut outer).zip(key) {
        *i ^= k;
        *o ^= k;
    }
    (inner, outer)
}

fn fold(states: &mut [Sha256]) -> [u8; 32] {
    if let [state] = states {
        return std::mem::take(state).finalize().into();
    }
    let (left, right) = states.split_at_mut(states.len() / 2);
    let digest = fold(left);
    right[0].update(digest);
    fold(right)
}

/// `KDF(key, label, path…)`; at most two further path elements of at most 64 bytes.
pub(super) fn kdf(label: Label, path: &[&[u8]], key: &[u8]) -> [u8; 32] {
    debug_assert!(path.len() <= DEPTH && path.iter().all(|p| p.len() <= 64));
    let start = STATES[label as usize].get_or_init(|| Hasher::root().keyed(label.text()));
    match path {
        [] => start.clone().finish(key),
        [first] => start.keyed(first).finish(key),
        [first, second, ..] => start.keyed(first).keyed(second).finish(key),
    }
}

/// The first 12 bytes of [`kdf`].
pub(super) fn kdf_nonce(label: Label, path: &[&[u8]], key: &[u8]) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce.copy_from_slice(&kdf(label, path, key)[..12]);
    nonce
}
