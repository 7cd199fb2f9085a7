//! A Unix socket with mode 0600 in a folder with mode 0700.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// One accepted connection.
pub type Peer = UnixStream;

/// The listening socket; removed when dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
    user: u32,
}

impl Listener {
    /// Listens at `path`. Its folder is made with mode 0700 when it is missing, and refused when
    /// another user could put a socket of his own there. A socket that nobody answers is replaced.
    ///
    /// # Errors
    /// `AddrInUse` when a core listens there already; `PermissionDenied` for an unsafe folder;
    /// the system's errors.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        if let Some(folder) = path.parent() {
            private_folder(folder, user)?;
        }
        if let Ok(found) = std::fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!("{} is there and is no socket", path.display()),
                ));
            }
            if UnixStream::connect(path).await.is_ok() {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    format!("a core listens at {} already", path.display()),
                ));
            }
            std::fs::remove_file(path)?;
        }
        // The folder admits nobody else, so that the moment before the mode is set harms nothing.
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let inode = std::fs::symlink_metadata(path)?.ino();
        Ok(Self { listener, path: path.to_owned(), inode, user })
    }

    /// Waits for the next connection of the same user; others are closed.
    ///
    /// # Errors
    /// The system's, when nothing can be accepted any more.
    pub async fn accept(&mut self) -> io::Result<Peer> {
        loop {
            let (stream, _) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match stream.peer_cred() {
                Ok(peer) if may_connect(peer.uid(), self.user) => return Ok(stream),
                Ok(peer) => tracing::warn!("user {} tried to connect to the core and was refused", peer.uid()),
                Err(error) => {
                    tracing::warn!("a connection without a known user was refused: {error}")
                }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Only our own: a successor may have put another in its place.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Connects to the core at `path`, which must run as the same user.
///
/// # Errors
/// The system's; `PermissionDenied` when another user's program listens there.
pub async fn connect(path: &Path) -> io::Result<Peer> {
    let stream = UnixStream::connect(path).await?;
    let user = rustix::process::geteuid().as_raw();
    if stream.peer_cred()?.uid() == user {
        Ok(stream)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} belongs to another user", path.display())))
    }
}

/// Whether a program of user `peer` may connect to a core of user `own`.
fn may_connect(peer: u32, own: u32) -> bool {
    peer == own
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
        || matches!(
            rustix::io::Errno::from_io_error(error),
            Some(
                rustix::io::Errno::MFILE
                    | rustix::io::Errno::NFILE
                    | rustix::io::Errno::NOBUFS
                    | rustix::io::Errno::NOMEM
            )
        )
}

fn private_folder(folder: &Path, user: u32) -> io::Result<()> {
    if !folder.exists() {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let found = std::fs::metadata(folder)?;
    if found.uid() != user || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} can be written by others; the core's socket must not lie there", folder.display()),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_is_private_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/core.sock");
        let listener = Listener::bind(&path).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        let second = Listener::bind(&path).await.unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_left_by_a_killed_core_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/core.sock");
        std::fs::create_dir(folder.path().join("run")).unwrap();
        std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o700)).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        Listener::bind(&path).await.unwrap();
    }

    #[tokio::test]
    async fn a_folder_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = Listener::bind(&folder.path().join("core.sock")).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn only_the_same_user_may_connect() {
        assert!(may_connect(1000, 1000));
        assert!(!may_connect(1001, 1000));
        assert!(!may_connect(0, 1000));
    }
}
