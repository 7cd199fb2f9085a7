//! Where Culvert's files belong for this user.
//!
//! Linux: the XDG base folders. Windows: `%APPDATA%` and `%LOCALAPPDATA%`. macOS: `~/Library`. The environment
//! variable `CULVERT_HOME` (an absolute path) puts everything below one folder: for tests and for carrying it along.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// The longest path a local socket may have on every Unix (macOS: 104 bytes with the end mark).
const SOCKET_PATH_LIMIT: usize = 103;
/// What the longest socket name of ours adds to the runtime folder.
const SOCKET_NAME_ROOM: usize = 24;

/// Why the folders can't be told or made.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// No home folder.
    #[error(
        "the home folder of this user is unknown: set HOME (Windows: APPDATA and LOCALAPPDATA) to an absolute path"
    )]
    NoHome,
    /// A folder can't be made or has the wrong owner or rights.
    #[error("the folder {path} can't be used: {source}")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
}

/// The folders; none of them need exist before [`Directories::create`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// Settings a person may write by hand.
    pub config: PathBuf,
    /// The store: what must not be lost.
    pub data: PathBuf,
    /// Journals and logs: what must survive a restart but isn't worth a backup.
    pub state: PathBuf,
    /// What can be fetched again.
    pub cache: PathBuf,
    /// Sockets; only this user can enter it.
    pub runtime: PathBuf,
}

impl Directories {
    /// The folders of this user.
    ///
    /// # Errors
    /// When neither the environment nor the user database tells a home folder.
    pub fn find() -> Result<Self, DirectoryError> {
        Self::from_environment(|name| std::env::var_os(name), std::env::home_dir())
    }

    fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
        home: Option<PathBuf>,
    ) -> Result<Self, DirectoryError> {
        // The XDG rules say that a relative path is to be ignored; an empty one is relative.
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(all) = absolute("CULVERT_HOME") {
            return Ok(Self {
                config: all.join("config"),
                data: all.join("data"),
                state: all.join("state"),
                cache: all.join("cache"),
                runtime: short_enough(all.join("run")),
            });
        }
        let home = absolute("HOME").or_else(|| home.filter(|path| path.is_absolute()));
        Self::of_system(absolute, home.as_deref())
    }

    #[cfg(not(any(windows, target_os = "macos")))]
    fn of_system(absolute: impl Fn(&str) -> Option<PathBuf>, home: Option<&Path>) -> Result<Self, DirectoryError> {
        let folder = |name: &str, below_home: &str| {
            absolute(name)
                .or_else(|| home.map(|home| home.join(below_home)))
                .map(|base| base.join("culvert"))
                .ok_or(DirectoryError::NoHome)
        };
        Ok(Self {
            config: folder("XDG_CONFIG_HOME", ".config")?,
            data: folder("XDG_DATA_HOME", ".local/share")?,
            state: folder("XDG_STATE_HOME", ".local/state")?,
            cache: folder("XDG_CACHE_HOME", ".cache")?,
            runtime: absolute("XDG_RUNTIME_DIR")
                .filter(|path| is_private(path).is_ok())
                .map_or_else(temporary_runtime, |base| short_enough(base.join("culvert"))),
        })
    }

    #[cfg(windows)]
    fn of_system(absolute: impl Fn(&str) -> Option<PathBuf>, home: Option<&Path>) -> Result<Self, DirectoryError> {
        let base = |name: &str, below_home: &str| {
            absolute(name)
                .or_else(|| home.map(|home| home.join(below_home)))
                .map(|base| base.join("Culvert"))
                .ok_or(DirectoryError::NoHome)
        };
        let roaming = base("APPDATA", "AppData\\Roaming")?;
        let local = base("LOCALAPPDATA", "AppData\\Local")?;
        Ok(Self {
            config: roaming.join("config"),
            // The store is sealed with a key of this machine: it must not roam.
            data: local.join("data"),
            state: local.join("state"),
            cache: local.join("cache"),
            runtime: local.join("run"),
        })
    }

    #[cfg(target_os = "macos")]
    fn of_system(_absolute: impl Fn(&str) -> Option<PathBuf>, home: Option<&Path>) -> Result<Self, DirectoryError> {
        let library = home.ok_or(DirectoryError::NoHome)?.join("Library");
        let support = library.join("Application Support/Culvert");
        Ok(Self {
            config: support.join("config"),
            data: support.join("data"),
            state: support.join("state"),
            cache: library.join("Caches/Culvert"),
            runtime: short_enough(support.join("run")),
        })
    }

    /// Makes the folders, each for this user alone, and checks that the runtime folder is.
    ///
    /// # Errors
    /// When a folder can't be made, or when the runtime folder belongs to someone else or is open to others.
    pub fn create(&self) -> Result<(), DirectoryError> {
        for path in [&self.config, &self.data, &self.state, &self.cache, &self.runtime] {
            create_folder(path).map_err(|source| DirectoryError::Unusable { path: path.clone(), source })?;
        }
        is_private(&self.runtime).map_err(|source| DirectoryError::Unusable { path: self.runtime.clone(), source })
    }
}

/// `path`, or a shorter place when a socket in it would have too long a name for the system.
fn short_enough(path: PathBuf) -> PathBuf {
    if cfg!(unix) && path.as_os_str().len() + SOCKET_NAME_ROOM > SOCKET_PATH_LIMIT { temporary_runtime() } else { path }
}

/// A folder in `/tmp` that is checked for its owner before use: anyone can make a folder of that name first.
#[cfg(unix)]
fn temporary_runtime() -> PathBuf {
    PathBuf::from(format!("/tmp/culvert-{}", rustix::process::getuid().as_raw()))
}

#[cfg(not(unix))]
fn temporary_runtime() -> PathBuf {
    std::env::temp_dir().join("culvert")
}

#[cfg(unix)]
fn create_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn create_folder(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path)
}

/// Whether a folder is a real one of this user that others can't enter.
#[cfg(unix)]
fn is_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::symlink_metadata(path)?;
    let wrong = |why: &str| Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why.to_owned()));
    if !metadata.is_dir() {
        wrong("it is not a folder")
    } else if metadata.uid() != rustix::process::getuid().as_raw() {
        wrong("it belongs to another user")
    } else if metadata.mode() & 0o077 != 0 {
        wrong("other users can enter it")
    } else {
        Ok(())
    }
}

#[cfg(not(unix))]
fn is_private(path: &Path) -> std::io::Result<()> {
    // The user's profile folders are closed to others by inheritance.
    fs::metadata(path).map(|_| ())
}

/// Opens for writing from the start, readable to this user only; a link in its place is not followed.
pub(crate) fn create_private(path: &Path) -> std::io::Result<File> {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    private(OpenOptions::new().write(true).create_new(true)).open(path)
}

/// Opens or makes a file for this user only, without changing what is in it.
pub(crate) fn open_private(path: &Path) -> std::io::Result<File> {
    private(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(path)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn find(variables: &[(&str, &str)], home: Option<&str>) -> Result<Directories, DirectoryError> {
        Directories::from_environment(
            |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)),
            home.map(PathBuf::from),
        )
    }

    #[test]
    fn xdg_folders_win_and_relative_ones_are_ignored() {
        let found =
            find(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("XDG_DATA_HOME", "data"), ("XDG_CACHE_HOME", "")], None)
                .unwrap();
        assert_eq!(found.config, Path::new("/c/culvert"));
        assert_eq!(found.data, Path::new("/h/.local/share/culvert"));
        assert_eq!(found.state, Path::new("/h/.local/state/culvert"));
        assert_eq!(found.cache, Path::new("/h/.cache/culvert"));
    }

    #[test]
    fn odd_homes() {
        // A service without HOME, an empty one, a relative one: the user database answers.
        for variables in [&[][..], &[("HOME", "")], &[("HOME", "here")]] {
            assert_eq!(
                find(variables, Some("/from/passwd")).unwrap().config,
                Path::new("/from/passwd/.config/culvert")
            );
        }
        assert!(matches!(find(&[], None), Err(DirectoryError::NoHome)));
        assert!(matches!(find(&[("HOME", "")], Some("")), Err(DirectoryError::NoHome)));
        let unicode = find(&[("HOME", "/home/名前 with space")], None).unwrap();
        assert_eq!(unicode.config, Path::new("/home/名前 with space/.config/culvert"));
    }

    #[test]
    fn sockets_get_a_short_private_place() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let text = folder.path().to_str().unwrap();
        assert_eq!(
            find(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", text)], None).unwrap().runtime,
            folder.path().join("culvert")
        );
        // Open to others, absent, or too long for a socket: elsewhere.
        let long = folder.path().join("x".repeat(90));
        fs::create_dir(&long).unwrap();
        fs::set_permissions(&long, fs::Permissions::from_mode(0o700)).unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        for other in [long.to_str().unwrap(), open.to_str().unwrap(), "/no/such/folder"] {
            assert_eq!(find(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", other)], None).unwrap().runtime, temporary_runtime());
        }
    }

    #[test]
    fn folders_are_made_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let found = find(&[("CULVERT_HOME", folder.path().join("all").to_str().unwrap())], None).unwrap();
        found.create().unwrap();
        found.create().unwrap();
        assert_eq!(fs::metadata(&found.data).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&found.runtime, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(found.create(), Err(DirectoryError::Unusable { path, .. }) if path == found.runtime));
        fs::remove_dir(&found.runtime).unwrap();
        std::os::unix::fs::symlink(folder.path(), &found.runtime).unwrap();
        assert!(found.create().is_err(), "a link is not our folder");
    }
}
