//! Where the service's socket is.

use std::path::PathBuf;

use culvert_system::directories::Directories;

/// The socket of this user's service.
#[cfg(unix)]
pub(crate) fn socket(directories: &Directories) -> PathBuf {
    directories.runtime.join("core.sock")
}

/// The pipe of this user's service. Pipes of all users share one folder: the name tells them
/// apart, and the access list keeps others out.
#[cfg(windows)]
pub(crate) fn socket(directories: &Directories) -> PathBuf {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    directories.runtime.hash(&mut hasher);
    PathBuf::from(format!(r"\\.\pipe\culvert-core-{:016x}", hasher.finish()))
}
