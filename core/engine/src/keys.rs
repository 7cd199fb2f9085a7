//! The key of the secrets on this computer: the desktop's keyring, or a file where there is none.

use std::path::PathBuf;

use culvert_system::secrets::{self, KeyPlace as SystemPlace, OsKeyring, SecretsError, UNLOCK_WITHIN};
use zeroize::Zeroizing;

use crate::store::{FoundKey, KeyError, KeyPlace, KeyStore};

/// Keyring first, key file where there is no keyring.
#[derive(Debug)]
pub struct SystemKeys {
    keyring: OsKeyring,
    file: PathBuf,
}

impl SystemKeys {
    /// The key of the store in `data`. Stores in other folders have keys of their own.
    pub fn new(data: &std::path::Path) -> Self {
        Self {
            keyring: OsKeyring::new("culvert", &data.display().to_string(), UNLOCK_WITHIN),
            file: data.join("secrets.key"),
        }
    }
}

impl KeyStore for SystemKeys {
    fn obtain(&self, something_is_sealed: bool) -> Result<FoundKey, KeyError> {
        // The system's randomness can't fail where a process runs at all; a key of zeros is never
        // used, since the failure is looked at first.
        let mut drawn = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *drawn).map_err(|error| KeyError::Unusable {
            place: "the system's randomness".into(),
            reason: error.to_string(),
        })?;
        let key =
            secrets::obtain(&self.keyring, &self.file, something_is_sealed, || *drawn).map_err(
                |error| match error {
                    SecretsError::Lost(_) | SecretsError::Absent(_) => KeyError::Missing,
                    SecretsError::Locked(_)
                    | SecretsError::NotAKey(_)
                    | SecretsError::File { .. }
                    | SecretsError::NotKept(_) => {
                        KeyError::Unusable { place: "secrets".into(), reason: error.to_string() }
                    }
                },
            )?;
        let place = match key.place {
            SystemPlace::Keyring => KeyPlace::Keyring,
            SystemPlace::File => KeyPlace::File,
        };
        Ok((key.bytes, place))
    }
}

/// A key file only, as on a computer without keyring.
#[cfg(test)]
pub(crate) struct FileOnly(pub(crate) PathBuf);

#[cfg(test)]
impl KeyStore for FileOnly {
    fn obtain(&self, something_is_sealed: bool) -> Result<FoundKey, KeyError> {
        struct NoKeyring;
        impl secrets::Keeper for NoKeyring {
            fn read(&self) -> secrets::Keyring {
                secrets::Keyring::Absent("none in tests".to_owned())
            }
            fn store(&self, _: &[u8]) -> Result<(), String> {
                Err("none in tests".to_owned())
            }
        }
        match secrets::obtain(&NoKeyring, &self.0, something_is_sealed, || [3; 32]) {
            Ok(key) => Ok((key.bytes, KeyPlace::File)),
            Err(SecretsError::Absent(_) | SecretsError::Lost(_)) => Err(KeyError::Missing),
            Err(error) => Err(KeyError::Unusable { place: "file".to_owned(), reason: error.to_string() }),
        }
    }
}
