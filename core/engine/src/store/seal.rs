//! Sealing of secrets: AES-256-GCM with a random nonce, bound to the place where they lie, so that
//! a sealed value can't be moved to another row.

use std::sync::Arc;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::key::{KeyError, KeyPlace, KeyStore};

/// First byte of a sealed value: its form.
const FORM: u8 = 1;
const NONCE_BYTES: usize = 12;

/// A sealed value.
pub type Sealed = Vec<u8>;

/// Why a secret can't be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key is missing or can't be read.
    #[error("the key of the stored secrets can't be used: {0}")]
    Key(#[from] KeyError),
    /// The value was sealed under another key, belongs elsewhere, or is damaged.
    #[error("a stored secret can't be opened: it was sealed with another key, or it is damaged")]
    Refused,
    /// The system has no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

/// Table, column and row that a sealed value is bound to.
pub(super) fn place(table: &str, column: &str, row: u32) -> String {
    format!("{table}/{column}/{row}")
}

/// Seals and opens under the one key, which it fetches when it is first needed.
pub(super) struct Sealer {
    keys: Arc<dyn KeyStore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cipher: Option<Arc<Aes256Gcm>>,
    place: Option<KeyPlace>,
    problem: Option<String>,
}

impl Sealer {
    pub(super) fn new(keys: Arc<dyn KeyStore>) -> Self {
        Self { keys, state: Mutex::default() }
    }

    pub(super) fn place(&self) -> Option<KeyPlace> {
        self.state.lock().place
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.state.lock().problem.clone()
    }

    /// The cipher. A new key is made only when `may_make` says that nothing is sealed yet.
    fn cipher(&self, may_make: bool) -> Result<Arc<Aes256Gcm>, SealError> {
        let mut state = self.state.lock();
        if let Some(cipher) = &state.cipher {
            return Ok(Arc::clone(cipher));
        }
        let fetched = self.keys.obtain(!may_make);
        match fetched {
            Ok((key, place)) => {
                let cipher = Arc::new(Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(&*key)));
                *state = State { cipher: Some(Arc::clone(&cipher)), place: Some(place), problem: None };
                Ok(cipher)
            }
            Err(error) => {
                state.problem = Some(error.to_string());
                Err(error.into())
            }
        }
    }

    /// Seals `plain` for `place`. `nothing_sealed` allows to make the key.
    pub(super) fn seal(&self, place: &str, plain: &[u8], nothing_sealed: bool) -> Result<Sealed, SealError> {
        let cipher = self.cipher(nothing_sealed)?;
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::Random)?;
        let sealed = cipher
            .encrypt(Nonce::from_slice(&nonce), Payload { msg: plain, aad: place.as_bytes() })
            .map_err(|_| SealError::Refused)?;
        let mut value = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
        value.push(FORM);
        value.extend_from_slice(&nonce);
        value.extend_from_slice(&sealed);
        Ok(value)
    }

    /// Opens what was sealed for `place`.
    pub(super) fn open(&self, place: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let cipher = self.cipher(false)?;
        let rest = sealed.strip_prefix(&[FORM]).ok_or(SealError::Refused)?;
        let (nonce, text) = rest.split_at_checked(NONCE_BYTES).ok_or(SealError::Refused)?;
        let opened = cipher.decrypt(Nonce::from_slice(nonce), Payload { msg: text, aad: place.as_bytes() });
        match opened {
            Ok(plain) => Ok(Zeroizing::new(plain)),
            Err(_) => {
                let problem = SealError::Refused;
                self.state.lock().problem = Some(problem.to_string());
                Err(problem)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::MemoryKey;
    use super::*;

    #[test]
    fn a_sealed_value_opens_only_at_its_place() {
        let sealer = Sealer::new(Arc::new(MemoryKey::default()));
        let sealed = sealer.seal(&place("nodes", "sealed", 1), b"secret", true).unwrap();
        assert_eq!(**sealer.open(&place("nodes", "sealed", 1), &sealed).unwrap(), b"secret"[..]);
        assert!(sealer.open(&place("nodes", "sealed", 2), &sealed).is_err());
        let again = sealer.seal(&place("nodes", "sealed", 1), b"secret", false).unwrap();
        assert_ne!(sealed, again, "nonces are fresh");
        let mut damaged = sealed;
        *damaged.last_mut().unwrap() ^= 1;
        assert!(sealer.open(&place("nodes", "sealed", 1), &damaged).is_err());
        assert!(sealer.open("x", &[]).is_err());
    }

    #[test]
    fn no_key_is_made_while_something_is_sealed() {
        let keys = Arc::new(MemoryKey::default());
        let sealer = Sealer::new(Arc::clone(&keys) as Arc<dyn KeyStore>);
        assert!(matches!(sealer.seal("x", b"secret", false), Err(SealError::Key(KeyError::Missing))));
        assert!(keys.obtain(true).is_err());
        assert!(sealer.problem().is_some());
    }
}
