//! A named pipe that only its owner may open, and only from this computer.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions};

mod descriptor;

use descriptor::OwnerOnly;

/// One accepted connection.
pub type Peer = NamedPipeServer;

/// The listening pipe.
#[derive(Debug)]
pub struct Listener {
    name: OsString,
    next: NamedPipeServer,
    descriptor: OwnerOnly,
}

impl Listener {
    /// Listens at the pipe `path` (`\\.\pipe\…`).
    ///
    /// # Errors
    /// `PermissionDenied` when a pipe of that name is there already; the system's errors.
    #[allow(clippy::unused_async, reason = "the Unix side waits here")]
    pub async fn bind(path: &Path) -> io::Result<Self> {
        let descriptor = OwnerOnly::new()?;
        let name = path.as_os_str().to_owned();
        let next =
            descriptor.create(ServerOptions::new().first_pipe_instance(true).reject_remote_clients(true), &name)?;
        Ok(Self { name, next, descriptor })
    }

    /// Waits for the next connection. The pipe's access list admits its owner only.
    ///
    /// # Errors
    /// The system's.
    pub async fn accept(&mut self) -> io::Result<Peer> {
        self.next.connect().await?;
        let following = self.descriptor.create(ServerOptions::new().reject_remote_clients(true), &self.name)?;
        Ok(std::mem::replace(&mut self.next, following))
    }
}

/// Connects to the core's pipe at `path`.
///
/// # Errors
/// The system's.
pub async fn connect(path: &Path) -> io::Result<NamedPipeClient> {
    /// All instances are busy: another program is just being accepted.
    const PIPE_BUSY: i32 = 231;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
    loop {
        match ClientOptions::new().open(path.as_os_str()) {
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            outcome => return outcome,
        }
    }
}
