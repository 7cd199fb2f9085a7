//! Finding the core, or starting it.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use culvert_ipc::methods::{SystemHello, SystemShutdown};
use culvert_ipc::types::{HelloParams, Nothing};
use culvert_ipc::{Client, ClientError, Numbered, PROTOCOL_VERSION};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// How long a core that was just started may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long an older core may take to put everything back and end.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// How long the exchange of versions may take.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Between two looks at the socket.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// Why there is no core.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The program is not where it belongs.
    #[error("culvert-core is not at {0}: install Culvert again, or name it in CULVERT_CORE")]
    Missing(PathBuf),
    /// It did not start.
    #[error("culvert-core did not start: {0}")]
    Start(#[source] io::Error),
    /// It ended before it listened.
    #[error("culvert-core ended at once ({0}): its log says why")]
    Ended(std::process::ExitStatus),
    /// It does not listen.
    #[error("culvert-core did not open {0} in time")]
    Late(PathBuf),
    /// It listens, but does not answer as it should.
    #[error("culvert-core does not answer: {0}")]
    Silent(#[from] ClientError),
    /// It is of another version and did not make room.
    #[error("a culvert-core of another version (protocol {0}) is running and did not end")]
    Version(u32),
}

/// A way to the core.
pub trait Connector: Send + Sync + 'static {
    /// Finds the core or starts it, and exchanges versions.
    fn attach(&self) -> impl Future<Output = Result<(Client, mpsc::Receiver<Numbered>), AttachError>> + Send;
}

/// The core of this machine.
#[derive(Debug, Clone)]
pub struct LocalCore {
    program: PathBuf,
    socket: PathBuf,
}

impl LocalCore {
    /// The core whose program lies beside this one, unless `CULVERT_CORE` names another.
    ///
    /// # Errors
    /// When this program's own place is not known.
    pub fn beside_this_program(socket: PathBuf) -> io::Result<Self> {
        let named = std::env::var_os("CULVERT_CORE").map(PathBuf::from);
        let program = match named {
            Some(program) => program,
            None => std::env::current_exe()?.with_file_name(format!("culvert-core{}", std::env::consts::EXE_SUFFIX)),
        };
        Ok(Self { program, socket })
    }

    /// The core `program`, listening at `socket`.
    pub fn new(program: PathBuf, socket: PathBuf) -> Self {
        Self { program, socket }
    }

    async fn start(&self) -> Result<(Client, mpsc::Receiver<Numbered>), AttachError> {
        if !self.program.is_file() {
            return Err(AttachError::Missing(self.program.clone()));
        }
        let mut child = self.command().spawn().map_err(AttachError::Start)?;
        let until = Instant::now() + START_LIMIT;
        let attached = loop {
            if let Some(attached) = look(&self.socket).await? {
                break attached;
            }
            if let Some(status) = child.try_wait().map_err(AttachError::Start)? {
                // Another start may have been quicker, and its core listens by now.
                if let Some(attached) = look(&self.socket).await? {
                    return Ok(attached);
                }
                return Err(AttachError::Ended(status));
            }
            if Instant::now() > until {
                return Err(AttachError::Late(self.socket.clone()));
            }
            sleep(LOOK_AGAIN).await;
        };
        // The core outlives this handle; waiting for it only keeps it from becoming a zombie.
        tokio::spawn(async move {
            let _ = child.wait().await;
        });
        Ok(attached)
    }

    fn command(&self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.arg("serve").arg("--socket").arg(&self.socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C in the terminal that started the app must not reach the core, which puts the
        // system's settings back when the app asks it to.
        #[cfg(unix)]
        command.process_group(0);
        command
    }
}

impl Connector for LocalCore {
    async fn attach(&self) -> Result<(Client, mpsc::Receiver<Numbered>), AttachError> {
        let attached = match look(&self.socket).await? {
            Some(attached) => attached,
            None => self.start().await?,
        };
        let Some(theirs) = other_version(&attached.0).await? else {
            return Ok(attached);
        };
        tracing::info!("a core with protocol {theirs} is running; it is asked to make room");
        drain(&attached.0, &self.socket).await.ok_or(AttachError::Version(theirs))?;
        let fresh = self.start().await?;
        match other_version(&fresh.0).await? {
            None => Ok(fresh),
            Some(theirs) => Err(AttachError::Version(theirs)),
        }
    }
}

/// Connects when somebody listens at `socket`.
async fn look(socket: &Path) -> Result<Option<(Client, mpsc::Receiver<Numbered>)>, AttachError> {
    match Client::connect(socket).await {
        Ok(attached) => Ok(Some(attached)),
        Err(ClientError::Io(error))
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Exchanges versions; the core's, when it does not fit ours.
async fn other_version(client: &Client) -> Result<Option<u32>, AttachError> {
    let ours = HelloParams {
        protocol_version: PROTOCOL_VERSION,
        client: concat!("culvert-app ", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    let hello = timeout(HELLO_LIMIT, client.call::<SystemHello>(ours)).await.map_err(|_| ClientError::Closed)??;
    Ok((!hello.compatible).then_some(hello.protocol_version))
}

/// Asks a core to end, and waits until nobody listens any more.
async fn drain(client: &Client, socket: &Path) -> Option<()> {
    let _ = timeout(DRAIN_LIMIT, client.call::<SystemShutdown>(Nothing {})).await;
    let until = Instant::now() + DRAIN_LIMIT;
    while Instant::now() < until {
        if matches!(look(socket).await, Ok(None)) {
            return Some(());
        }
        sleep(LOOK_AGAIN).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let core = LocalCore::new(folder.path().join("no-core"), folder.path().join("core.sock"));
        let error = core.attach().await.err().unwrap();
        assert!(matches!(&error, AttachError::Missing(path) if path.ends_with("no-core")), "{error}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_core_that_ends_at_once_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let core = LocalCore::new(PathBuf::from("/bin/false"), folder.path().join("core.sock"));
        let error = core.attach().await.err().unwrap();
        assert!(matches!(error, AttachError::Ended(_)), "{error}");
    }
}
