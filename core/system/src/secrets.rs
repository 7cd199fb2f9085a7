//! The key that seals secrets at rest: in the keyring of the desktop, or, where there is none, in a file that only
//! this user can read.
//!
//! The one thing that must never happen is a second key while rows sealed with the first exist. So whether such rows
//! exist is an argument, and a keyring that is locked or has gone gives an error, not a fresh key.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use zeroize::Zeroizing;

/// Length of a key in bytes (AES-256).
pub const KEY_BYTES: usize = 32;

/// A keyring may show a dialogue to be unlocked; so long we wait for the person.
pub const UNLOCK_WITHIN: Duration = Duration::from_secs(120);

/// Where a key lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// The keyring of the desktop or system.
    Keyring,
    /// A file of this user; the app should say so.
    File,
}

/// A key and where it came from.
pub struct Key {
    /// The key.
    pub bytes: Zeroizing<[u8; KEY_BYTES]>,
    /// Where it lives.
    pub place: KeyPlace,
    /// It was made just now.
    pub fresh: bool,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("place", &self.place).field("fresh", &self.fresh).finish_non_exhaustive()
    }
}

/// What a look into the keyring gave.
#[derive(Debug)]
pub enum Keyring {
    /// It holds our key.
    Stored(Zeroizing<Vec<u8>>),
    /// It is there and open, and holds no key of ours.
    Empty,
    /// It is there and locked, or the person has not answered its question.
    Locked(String),
    /// There is none here.
    Absent(String),
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// Sealed rows wait for a key that the locked keyring holds.
    #[error("the keyring is locked ({0}); unlock it and try again")]
    Locked(String),
    /// Sealed rows exist, and the keyring that has their key isn't reachable.
    #[error(
        "the secrets were sealed with a key in a keyring that isn't reachable ({0}); start the keyring, or open them with the passphrase"
    )]
    Absent(String),
    /// Sealed rows exist, the keyring is open, and their key isn't in it.
    #[error(
        "the key that the secrets were sealed with is in neither the keyring nor {0}; open them with the passphrase"
    )]
    Lost(PathBuf),
    /// What was found isn't a key.
    #[error("what {0} holds as Culvert's key is not one; it has been left as it is")]
    NotAKey(String),
    /// The key file.
    #[error("the key file {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// The keyring took the key and gave back another, or failed to store it.
    #[error("the keyring did not keep the key: {0}")]
    NotKept(String),
}

/// Something that keeps one secret. [`OsKeyring`] is the real one.
pub trait Keeper {
    /// Looks for the secret.
    fn read(&self) -> Keyring;

    /// Stores the secret.
    ///
    /// # Errors
    /// Why it wasn't stored, in the keyring's words.
    fn store(&self, secret: &[u8]) -> Result<(), String>;
}

/// The keyring of this system: Secret Service (GNOME Keyring, `KWallet`), Windows Credential Manager, macOS Keychain.
#[derive(Debug, Clone)]
pub struct OsKeyring {
    service: String,
    account: String,
    limit: Duration,
}

impl OsKeyring {
    /// An entry under a service and an account name; calls end after `limit` even when the keyring asks the person.
    #[must_use]
    pub fn new(service: &str, account: &str, limit: Duration) -> Self {
        Self { service: service.into(), account: account.into(), limit }
    }

    /// Runs `work` on a thread of its own: a keyring that waits for the person can't be interrupted.
    fn within_limit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&keyring::Entry) -> Result<T, keyring::Error> + Send + 'static,
    ) -> Outcome<T> {
        let (sender, receiver) = sync_channel(1);
        let (service, account) = (self.service.clone(), self.account.clone());
        let spawned = std::thread::Builder::new().name("keyring".into()).spawn(move || {
            let result = keyring::Entry::new(&service, &account).and_then(|entry| work(&entry));
            // Nobody waits any more when the limit has passed.
            let _ = sender.send(result);
        });
        if let Err(error) = spawned {
            return Outcome::Absent(error.to_string());
        }
        match receiver.recv_timeout(self.limit) {
            Ok(Ok(value)) => Outcome::Done(value),
            Ok(Err(error)) => sort(&error),
            Err(RecvTimeoutError::Timeout) => Outcome::Locked("its question was not answered".into()),
            Err(RecvTimeoutError::Disconnected) => Outcome::Absent("it failed inside".into()),
        }
    }
}

enum Outcome<T> {
    Done(T),
    NoEntry,
    Locked(String),
    Absent(String),
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the keyring's enum is open; what we don't know counts as absent")]
fn sort<T>(error: &keyring::Error) -> Outcome<T> {
    match error {
        keyring::Error::NoEntry => Outcome::NoEntry,
        keyring::Error::NoStorageAccess(why) => Outcome::Locked(why.to_string()),
        keyring::Error::NoDefaultStore => Outcome::Absent(match keyring::Entry::store_status() {
            Ok(()) => error.to_string(),
            Err(why) => why.to_string(),
        }),
        // Several entries: which one sealed the rows is not ours to guess.
        keyring::Error::Ambiguous(entries) => {
            Outcome::Locked(format!("it holds {} entries of that name", entries.len()))
        }
        other => Outcome::Absent(other.to_string()),
    }
}

impl Keeper for OsKeyring {
    fn read(&self) -> Keyring {
        match self.within_limit(|entry| entry.get_secret().map(Zeroizing::new)) {
            Outcome::Done(secret) => Keyring::Stored(secret),
            Outcome::NoEntry => Keyring::Empty,
            Outcome::Locked(why) => Keyring::Locked(why),
            Outcome::Absent(why) => Keyring::Absent(why),
        }
    }

    fn store(&self, secret: &[u8]) -> Result<(), String> {
        let secret = Zeroizing::new(secret.to_vec());
        match self.within_limit(move |entry| entry.set_secret(&secret)) {
            Outcome::Done(()) => Ok(()),
            Outcome::NoEntry => Err("it says that there is no such entry".into()),
            Outcome::Locked(why) | Outcome::Absent(why) => Err(why),
        }
    }
}

/// Gets the key, or makes one where that is safe.
///
/// `sealed_rows_exist` tells whether anything has been sealed already; then no key is ever made. `fresh` draws a new
/// key from the system's randomness. A keyring that is merely locked is never passed over in favour of a file.
///
/// # Errors
/// When there is no key to be had; the error says what the person can do.
pub fn obtain(
    keyring: &dyn Keeper,
    key_file: &Path,
    sealed_rows_exist: bool,
    fresh: impl FnOnce() -> [u8; KEY_BYTES],
) -> Result<Key, SecretsError> {
    // A key file exists only where there was no keyring when the first secret was sealed: then it is the key.
    if let Some(bytes) = read_file(key_file)? {
        return Ok(Key { bytes, place: KeyPlace::File, fresh: false });
    }
    match keyring.read() {
        Keyring::Stored(secret) => {
            let bytes = secret.as_slice().try_into().map_err(|_| SecretsError::NotAKey("the keyring".into()))?;
            Ok(Key { bytes: Zeroizing::new(bytes), place: KeyPlace::Keyring, fresh: false })
        }
        Keyring::Locked(why) => Err(SecretsError::Locked(why)),
        Keyring::Empty if sealed_rows_exist => Err(SecretsError::Lost(key_file.to_owned())),
        Keyring::Absent(why) if sealed_rows_exist => Err(SecretsError::Absent(why)),
        Keyring::Empty => {
            let bytes = Zeroizing::new(fresh());
            keyring.store(bytes.as_slice()).map_err(SecretsError::NotKept)?;
            match keyring.read() {
                Keyring::Stored(secret) if secret.as_slice() == bytes.as_slice() => {
                    Ok(Key { bytes, place: KeyPlace::Keyring, fresh: true })
                }
                Keyring::Stored(_) => Err(SecretsError::NotKept("another key came back".into())),
                Keyring::Empty => Err(SecretsError::NotKept("nothing came back".into())),
                Keyring::Locked(why) | Keyring::Absent(why) => Err(SecretsError::NotKept(why)),
            }
        }
        Keyring::Absent(why) => {
            tracing::info!(%why, "no keyring here; the key goes to a file of this user");
            let bytes = Zeroizing::new(fresh());
            write_file(key_file, &bytes).map_err(|source| SecretsError::File { path: key_file.to_owned(), source })?;
            Ok(Key { bytes, place: KeyPlace::File, fresh: true })
        }
    }
}

fn read_file(path: &Path) -> Result<Option<Zeroizing<[u8; KEY_BYTES]>>, SecretsError> {
    let failed = |source| SecretsError::File { path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    close_to_others(&file, path).map_err(failed)?;
    let mut text = Zeroizing::new(String::new());
    file.take(256).read_to_string(&mut text).map_err(failed)?;
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    let digits = text.trim();
    if digits.len() != KEY_BYTES * 2 || !digits.is_ascii() {
        return Err(SecretsError::NotAKey(path.display().to_string()));
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = digits
            .get(at * 2..at * 2 + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
            .ok_or_else(|| SecretsError::NotAKey(path.display().to_string()))?;
    }
    Ok(Some(bytes))
}

/// A backup or a copy may have opened the file to others.
#[cfg(unix)]
fn close_to_others(file: &std::fs::File, path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "other users could read the key file; closing it to them");
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn close_to_others(_file: &std::fs::File, _path: &Path) -> std::io::Result<()> {
    // The user's profile folders are closed to others by inheritance.
    Ok(())
}

/// Written beside, synced, then given its name only if nobody else has made one meanwhile.
fn write_file(path: &Path, key: &[u8; KEY_BYTES]) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    let mut text = Zeroizing::new(String::with_capacity(KEY_BYTES * 2 + 1));
    for byte in key {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    let mut file = crate::directories::create_private(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    let linked = std::fs::hard_link(&partial, path);
    std::fs::remove_file(&partial)?;
    linked?;
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
