//! Real peers: finding them, running them with a configuration on free ports, ending them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A peer has this long to accept connections.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Where a peer's program is: in the variable `variable`, in the cache of built peers, or on the
/// search path. Says why a test is skipped when it is nowhere (and panics when the environment
/// says that peers are required).
pub fn find(program: &str, variable: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        assert!(path.is_file(), "{variable} names {}, which is no file", path.display());
        return Some(path);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cached = home.join(".cache/culvert/peers/bin").join(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(cached)
        .chain(std::env::split_paths(&path).map(|folder| folder.join(program)))
        .find(|candidate| candidate.is_file());
    if found.is_none() {
        let named_only = variable.starts_with("CULVERT_PEER_");
        let required = std::env::var_os("CULVERT_REQUIRE_PEERS").is_some_and(|value| value == "1");
        assert!(!required || named_only, "{program} is not installed");
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// Says that a test is skipped.
#[expect(clippy::print_stderr, reason = "the person who runs the tests is to see it")]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Whether the whole matrix is to run (`CULVERT_FULL=1`) or a fast slice of it.
pub fn full() -> bool {
    std::env::var_os("CULVERT_FULL").is_some_and(|value| value == "1")
}

/// A loopback port that is free for TCP and UDP now.
///
/// # Panics
///
/// When the system has no free port.
pub fn free_port() -> u16 {
    for _ in 0..100 {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        if let Ok(listener) = TcpListener::bind(any)
            && let Ok(address) = listener.local_addr()
            && UdpSocket::bind(address).is_ok()
        {
            return address.port();
        }
    }
    panic!("no free port on loopback");
}

/// A running peer. Dropping it ends it.
pub struct Peer {
    child: Child,
    folder: tempfile::TempDir,
}

impl Peer {
    /// Runs `program` with `arguments`, in which `{config}` stands for a file with `config`, and
    /// waits until it accepts on `port` of loopback.
    ///
    /// # Panics
    ///
    /// When it can't be run, ends early or does not accept in time; with what it printed.
    pub fn run(program: &Path, arguments: &[&str], config: &str, port: u16) -> Self {
        let made = tempfile::tempdir();
        let Ok(folder) = made else { panic!("no temporary folder") };
        let file = folder.path().join("config.json");
        let log = folder.path().join("log");
        let written = std::fs::write(&file, config).and_then(|()| std::fs::File::create(&log));
        let Ok(output) = written else { panic!("can't write the configuration") };
        let Ok(errors) = output.try_clone() else { panic!("can't share the log") };
        let file = file.to_string_lossy().into_owned();
        let child = Command::new(program)
            .args(arguments.iter().map(|argument| argument.replace("{config}", &file)))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => panic!("can't run {}: {error}", program.display()),
        };
        let mut peer = Self { child, folder };
        peer.wait_until_it_accepts(port);
        peer
    }

    fn wait_until_it_accepts(&mut self, port: u16) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let until = Instant::now() + START_LIMIT;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("the peer ended with {status}: {}", self.log());
            }
            assert!(Instant::now() < until, "the peer accepts nothing: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it printed so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Its process, for measurements.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
