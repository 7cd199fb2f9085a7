//! Who may change the setting and the journal: whoever holds this lock. It ends with its holder, however that dies.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

const FILE: &str = "system-proxy.lock";
const PAUSE: Duration = Duration::from_millis(10);

/// The lock, held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock if it is free.
    pub(crate) fn try_take(directory: &Path) -> std::io::Result<Option<Self>> {
        let file = crate::directories::open_private(&directory.join(FILE))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Takes the lock, waiting for at most `limit`.
    pub(crate) fn take(directory: &Path, limit: Duration) -> std::io::Result<Option<Self>> {
        let end = Instant::now() + limit;
        loop {
            if let Some(lock) = Self::try_take(directory)? {
                return Ok(Some(lock));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }
}
