//! Where the key of the secrets lies.

use zeroize::Zeroizing;

/// A key and the place it came from.
pub type FoundKey = (Zeroizing<[u8; 32]>, KeyPlace);

/// Where a key lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// The desktop's keyring.
    Keyring,
    /// A file with mode 0600 in the data folder.
    File,
}

impl KeyPlace {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Keyring => "keyring",
            Self::File => "file",
        }
    }
}

/// Why there is no key.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    /// There are sealed secrets but no key for them. A new one would make them unreadable for ever.
    #[error("there are stored secrets but their key is missing; bring back the keyring or the key file")]
    Missing,
    /// The place of the key can't be read or written.
    #[error("{place}: {reason}")]
    Unusable {
        /// The place.
        place: String,
        /// What is wrong.
        reason: String,
    },
}

/// A place for the key.
pub trait KeyStore: Send + Sync {
    /// The key. A new one is made only when there is none and nothing is sealed yet.
    ///
    /// # Errors
    /// [`KeyError`], also when it can't be told whether there is one (a locked keyring).
    fn obtain(&self, something_is_sealed: bool) -> Result<FoundKey, KeyError>;
}

/// A key in memory, for runs that leave nothing behind, and for tests.
#[derive(Debug, Default)]
pub struct MemoryKey(parking_lot::Mutex<Option<Zeroizing<[u8; 32]>>>);

impl MemoryKey {
    /// A place that holds `key` already.
    pub fn holding(key: [u8; 32]) -> Self {
        Self(parking_lot::Mutex::new(Some(Zeroizing::new(key))))
    }
}

impl KeyStore for MemoryKey {
    fn obtain(&self, something_is_sealed: bool) -> Result<FoundKey, KeyError> {
        let mut held = self.0.lock();
        let key = match &*held {
            Some(key) => key.clone(),
            None if something_is_sealed => return Err(KeyError::Missing),
            None => {
                let mut key = Zeroizing::new([0; 32]);
                getrandom::fill(&mut *key).map_err(|error| KeyError::Unusable {
                    place: "the system's randomness".to_owned(),
                    reason: error.to_string(),
                })?;
                held.insert(key).clone()
            }
        };
        Ok((key, KeyPlace::File))
    }
}
