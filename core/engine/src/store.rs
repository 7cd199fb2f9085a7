//! The store: one SQLite file in the data folder, written by one process.
//!
//! Secrets are sealed ([`seal`]); what lists show is plain. Every call blocks for the time of a
//! disk write at most.

mod key;
mod lock;
mod nodes;
mod results;
mod schema;
mod seal;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

pub use key::{FoundKey, KeyError, KeyPlace, KeyStore, MemoryKey};
pub use nodes::{NewNode, StoredNode};
pub use seal::{SealError, Sealed};

use lock::FolderLock;
use seal::Sealer;

/// Name of the database in the data folder.
const DATABASE: &str = "culvert.db";

/// Why the store could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another core holds the data folder.
    #[error("{holder} uses the data folder {folder} already")]
    Held {
        /// Name and process id of the holder.
        holder: String,
        /// The folder.
        folder: PathBuf,
    },
    /// A newer Culvert wrote the file.
    #[error(
        "the data in {path} was written by a newer Culvert (its form is {found}, this one knows {known}); update Culvert, or move the file away"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its form.
        found: u32,
        /// The newest form that is known here.
        known: u32,
    },
    /// The folder can't be made or used.
    #[error("the data folder {folder} can't be used: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The database refuses.
    #[error("the stored data can't be read or written: {0}")]
    Database(#[from] rusqlite::Error),
    /// Secrets can't be sealed or opened.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A value in the database has another form than it should.
    #[error("the stored data is damaged: {0}")]
    Damaged(String),
}

/// The open store.
pub struct Store {
    connection: Mutex<Connection>,
    sealer: Sealer,
    folder: PathBuf,
    _lock: FolderLock,
}

impl Store {
    /// Opens the store in `folder` (made with mode 0700 when it is missing), migrating it when it
    /// is older, after a backup. `keys` holds the key of the secrets; it is not asked before
    /// there is something to seal or to open.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(folder: &Path, keys: Arc<dyn KeyStore>) -> Result<Self, StoreError> {
        private_folder(folder).map_err(|source| StoreError::Folder { folder: folder.to_owned(), source })?;
        let lock = FolderLock::take(folder)?;
        let path = folder.join(DATABASE);
        private_file(&path).map_err(|source| StoreError::Folder { folder: folder.to_owned(), source })?;
        let mut connection = Connection::open(&path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA cache_size = -512;
             PRAGMA busy_timeout = 2000;",
        )?;
        schema::migrate(&mut connection, &path)?;
        let store = Self {
            connection: Mutex::new(connection),
            sealer: Sealer::new(keys),
            folder: folder.to_owned(),
            _lock: lock,
        };
        store.purge_deleted()?;
        Ok(store)
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the key of the secrets lies; none while it has not been needed or is missing.
    pub fn key_place(&self) -> Option<KeyPlace> {
        self.sealer.place()
    }

    /// Why secrets can't be opened, when that was tried and failed.
    pub fn locked(&self) -> Option<String> {
        self.sealer.problem()
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock()
    }
}

/// Unix time, ms.
pub(crate) fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes the database's file, or takes others' rights to it away: names and servers of nodes are not
/// sealed. SQLite gives its journal files the same mode.
#[cfg(unix)]
fn private_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// On Windows the folder's own rights, inherited from the user's profile, keep others out.
#[cfg(windows)]
fn private_file(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
