//! Where the core's socket lies: the same place that `culvert-core` takes by itself, so that its
//! command line reaches the core that the app started. The core is told it all the same.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The longest path of a socket that every Unix takes, less the room of its name.
const LONGEST_FOLDER: usize = 103 - 24;

/// The socket (on Windows the pipe) of this user's core; `CULVERT_SOCKET` names another.
pub fn path() -> PathBuf {
    of_environment(|name| std::env::var_os(name), std::env::home_dir().as_deref())
}

fn of_environment(variable: impl Fn(&str) -> Option<OsString>, home: Option<&Path>) -> PathBuf {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(named) = variable("CULVERT_SOCKET").filter(|name| !name.is_empty()) {
        return named.into();
    }
    let folder = absolute("CULVERT_HOME").map(|all| all.join("run")).or_else(|| usual_folder(absolute, home));
    in_folder(folder)
}

#[cfg(not(any(windows, target_os = "macos")))]
fn usual_folder(absolute: impl Fn(&str) -> Option<PathBuf>, _home: Option<&Path>) -> Option<PathBuf> {
    absolute("XDG_RUNTIME_DIR").filter(|folder| is_private(folder)).map(|folder| folder.join("culvert"))
}

#[cfg(target_os = "macos")]
fn usual_folder(_absolute: impl Fn(&str) -> Option<PathBuf>, home: Option<&Path>) -> Option<PathBuf> {
    home.map(|home| home.join("Library/Application Support/Culvert/run"))
}

#[cfg(windows)]
fn usual_folder(absolute: impl Fn(&str) -> Option<PathBuf>, home: Option<&Path>) -> Option<PathBuf> {
    let local = absolute("LOCALAPPDATA").or_else(|| home.map(|home| home.join("AppData\\Local")))?;
    Some(local.join("Culvert").join("run"))
}

#[cfg(unix)]
fn in_folder(folder: Option<PathBuf>) -> PathBuf {
    let temporary = || PathBuf::from(format!("/tmp/culvert-{}", rustix::process::getuid().as_raw()));
    folder.filter(|folder| folder.as_os_str().len() <= LONGEST_FOLDER).unwrap_or_else(temporary).join("core.sock")
}

#[cfg(windows)]
fn in_folder(folder: Option<PathBuf>) -> PathBuf {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    folder.unwrap_or_else(|| std::env::temp_dir().join("culvert")).hash(&mut hasher);
    PathBuf::from(format!(r"\\.\pipe\culvert-core-{:016x}", hasher.finish()))
}

#[cfg(all(unix, not(target_os = "macos")))]
fn is_private(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(folder).is_ok_and(|found| {
        found.is_dir() && found.uid() == rustix::process::getuid().as_raw() && found.mode() & 0o077 == 0
    })
}

#[cfg(all(test, unix, not(target_os = "macos")))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_place_follows_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let with = |name: &'static str, value: &Path| {
            let value = value.as_os_str().to_owned();
            of_environment(move |asked| (asked == name).then(|| value.clone()), None)
        };
        assert_eq!(with("CULVERT_SOCKET", Path::new("/a/b.sock")), Path::new("/a/b.sock"));
        assert_eq!(with("CULVERT_HOME", Path::new("/home/me")), Path::new("/home/me/run/core.sock"));
        let runtime = folder.path();
        std::fs::set_permissions(runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(with("XDG_RUNTIME_DIR", runtime), runtime.join("culvert/core.sock"));
        let shared = of_environment(|_| None, None);
        assert!(shared.starts_with("/tmp") && shared.ends_with("core.sock"), "{}", shared.display());
        std::fs::set_permissions(runtime, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(with("XDG_RUNTIME_DIR", runtime), shared, "others can enter it");
        assert_eq!(with("CULVERT_HOME", Path::new(&format!("/{}", "x".repeat(90)))), shared, "too long for a socket");
    }
}
