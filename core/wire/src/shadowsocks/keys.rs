//! Keys: from passwords, and from keys and salts those of one session.

use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hkdf::Hkdf;
use md5::{Digest, Md5};
use sha1::Sha1;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Method;
use crate::aead::Key;

const SESSION_CONTEXT: &str = "shadowsocks 2022 session subkey";
const IDENTITY_CONTEXT: &str = "shadowsocks 2022 identity subkey";

/// The longest salt or key, bytes.
pub(super) const LONGEST: usize = 32;

/// Identity headers accepted in front of a user's key; more are no use and cost time.
const MOST_IDENTITIES: usize = 8;

/// Why a password can't be used with a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no password.
    #[error("the password is empty")]
    Empty,
    /// A part of a 2022 password is not base64.
    #[error("the key is not base64; a 2022 method needs a key of {0} bytes in base64")]
    NotBase64(usize),
    /// A part of a 2022 password has the wrong length.
    #[error("the key has {found} bytes, the method needs {needed}")]
    Length {
        /// Bytes that the key has.
        found: usize,
        /// Bytes that the method needs.
        needed: usize,
    },
    /// Several keys with a method that has no identity headers, or too many of them.
    #[error("this method takes a single key")]
    TooMany,
}

/// One pre-shared key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(super) struct SharedKey {
    bytes: [u8; LONGEST],
    length: usize,
}

impl SharedKey {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// What an identity header names a key by.
    pub(super) fn identity(&self) -> [u8; 16] {
        let mut name = [0; 16];
        name.copy_from_slice(&blake3::hash(self.bytes()).as_bytes()[..16]);
        name
    }
}

/// The keys that a password stands for: the user's, and those of the identity headers before it.
#[derive(Clone)]
pub struct Keys {
    pub(super) method: Method,
    pub(super) identities: Vec<SharedKey>,
    pub(super) user: SharedKey,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({}, …)", self.method.name())
    }
}

impl Keys {
    /// The keys of `password`: any text for the AEAD methods, base64 keys joined by `:` for 2022.
    pub fn new(method: Method, password: &str) -> Result<Self, KeyError> {
        if password.is_empty() {
            return Err(KeyError::Empty);
        }
        if !method.is_2022() {
            return Ok(Self { method, identities: Vec::new(), user: stretch(method, password) });
        }
        let mut keys = Vec::new();
        for part in password.split(':') {
            keys.push(decode(method, part)?);
        }
        let user = keys.pop().ok_or(KeyError::Empty)?;
        if !keys.is_empty() && !method.has_block_cipher() || keys.len() > MOST_IDENTITIES {
            return Err(KeyError::TooMany);
        }
        Ok(Self { method, identities: keys, user })
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }
}

fn decode(method: Method, text: &str) -> Result<SharedKey, KeyError> {
    let needed = method.key_length();
    let mut decoded = STANDARD.decode(text).map_err(|_| KeyError::NotBase64(needed))?;
    if decoded.len() != needed {
        return Err(KeyError::Length { found: decoded.len(), needed });
    }
    let mut bytes = [0; LONGEST];
    bytes[..needed].copy_from_slice(&decoded);
    decoded.zeroize();
    Ok(SharedKey { bytes, length: needed })
}

/// OpenSSL's `EVP_BytesToKey` with MD5 and no salt.
fn stretch(method: Method, password: &str) -> SharedKey {
    let mut bytes = [0; LONGEST];
    let first: [u8; 16] = Md5::digest(password).into();
    let second: [u8; 16] = Md5::new().chain_update(first).chain_update(password).finalize().into();
    bytes[..16].copy_from_slice(&first);
    bytes[16..].copy_from_slice(&second);
    SharedKey { bytes, length: method.key_length() }
}

/// The AEAD key of one direction of one session.
pub(super) fn session_key(method: Method, key: &SharedKey, salt: &[u8]) -> Key {
    let mut subkey = [0; LONGEST];
    if method.is_2022() {
        subkey = derive(SESSION_CONTEXT, key, salt);
    } else {
        let expanded = Hkdf::<Sha1>::new(Some(salt), key.bytes()).expand(b"ss-subkey", &mut subkey[..key.length]);
        debug_assert!(expanded.is_ok(), "HKDF-SHA1 yields up to 5,100 bytes");
    }
    let key = Key::new(method.cipher(), &subkey);
    subkey.zeroize();
    key
}

fn derive(context: &str, key: &SharedKey, salt: &[u8]) -> [u8; LONGEST] {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    hasher.update(key.bytes());
    hasher.update(salt);
    *hasher.finalize().as_bytes()
}

/// AES on single blocks, for identity headers and separate headers.
pub(super) enum BlockCipher {
    Aes128(Box<aes::Aes128>),
    Aes256(Box<aes::Aes256>),
}

impl BlockCipher {
    /// The cipher of a 2022 AES method under `key`; absent for the others.
    pub(super) fn new(method: Method, key: &SharedKey) -> Option<Self> {
        Self::from_bytes(method, key.bytes())
    }

    fn from_bytes(method: Method, key: &[u8]) -> Option<Self> {
        match method {
            Method::Blake3Aes128Gcm => aes::Aes128::new_from_slice(key).ok().map(|c| Self::Aes128(Box::new(c))),
            Method::Blake3Aes256Gcm => aes::Aes256::new_from_slice(key).ok().map(|c| Self::Aes256(Box::new(c))),
            Method::Aes128Gcm | Method::Aes256Gcm | Method::ChaCha20IetfPoly1305 | Method::Blake3ChaCha20Poly1305 => {
                None
            }
        }
    }

    /// The cipher of a TCP identity header.
    pub(super) fn identity(method: Method, key: &SharedKey, salt: &[u8]) -> Option<Self> {
        let subkey = derive(IDENTITY_CONTEXT, key, salt);
        Self::from_bytes(method, &subkey[..method.key_length()])
    }

    pub(super) fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        match self {
            Self::Aes128(cipher) => cipher.encrypt_block(&mut block),
            Self::Aes256(cipher) => cipher.encrypt_block(&mut block),
        }
        block.into()
    }

    pub(super) fn decrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        match self {
            Self::Aes128(cipher) => cipher.decrypt_block(&mut block),
            Self::Aes256(cipher) => cipher.decrypt_block(&mut block),
        }
        block.into()
    }
}
