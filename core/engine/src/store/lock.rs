//! One writer a data folder: a locked file that names its holder.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::StoreError;

/// Held as long as it lives; the system releases it when the process dies.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    pub(super) fn take(folder: &Path) -> Result<Self, StoreError> {
        let unusable = |source| StoreError::Folder { folder: folder.to_owned(), source };
        let path = folder.join("culvert.lock");
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.take(200).read_to_string(&mut holder);
                let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
                return Err(StoreError::Held { holder, folder: folder.to_owned() });
            }
            Err(std::fs::TryLockError::Error(source)) => return Err(unusable(source)),
        }
        let program = std::env::current_exe()
            .ok()
            .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
            .unwrap_or_else(|| "a program".to_owned());
        let holder = format!("{program} (process {})", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(holder.as_bytes()))
            .and_then(|()| file.flush())
            .map_err(unusable)?;
        Ok(Self { _file: file })
    }
}
