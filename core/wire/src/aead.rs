//! The AEAD ciphers of the protocols, in place, over aws-lc-rs.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// Length of every tag used here, bytes.
pub(crate) const TAG: usize = 16;

/// Length of every nonce used here, bytes.
pub(crate) const NONCE: usize = 12;

/// An AEAD cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Cipher {
    /// Length of its key, bytes.
    pub(crate) const fn key_length(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// A key with its schedule computed.
pub(crate) struct Key(LessSafeKey);

/// A tag did not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forged;

impl Key {
    /// The key in the first `cipher.key_length()` bytes of `material`.
    pub(crate) fn new(cipher: Cipher, material: &[u8]) -> Self {
        let key = &material[..cipher.key_length()];
        match UnboundKey::new(cipher.algorithm(), key) {
            Ok(key) => Self(LessSafeKey::new(key)),
            Err(_) => unreachable!("the key has the cipher's length"),
        }
    }

    /// Encrypts `data` in place and returns the tag.
    pub(crate) fn seal(&self, nonce: [u8; NONCE], aad: &[u8], data: &mut [u8]) -> [u8; TAG] {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mut tag = [0; TAG];
        match self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), data) {
            Ok(computed) => tag.copy_from_slice(computed.as_ref()),
            // Only a message beyond the cipher's limit (64 GiB) fails. No plaintext may leave.
            Err(_) => data.fill(0),
        }
        tag
    }

    /// Decrypts `sealed` (ciphertext and tag) in place; the plaintext is what lies in front of the tag.
    pub(crate) fn open(&self, nonce: [u8; NONCE], aad: &[u8], sealed: &mut [u8]) -> Result<usize, Forged> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(aad), sealed).map(|plain| plain.len()).map_err(|_| Forged)
    }

    /// Appends `plain`, sealed, to `out`.
    pub(crate) fn seal_to(&self, nonce: [u8; NONCE], aad: &[u8], plain: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(plain);
        let tag = self.seal(nonce, aad, &mut out[start..]);
        out.extend_from_slice(&tag);
    }
}

/// A 12-byte little-endian counter nonce, from zero.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter(u128);

impl Counter {
    /// The next nonce.
    pub(crate) fn next(&mut self) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&self.0.to_le_bytes()[..NONCE]);
        self.0 = self.0.wrapping_add(1);
        nonce
    }
}
