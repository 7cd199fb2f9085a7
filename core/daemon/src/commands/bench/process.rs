//! Programs under measurement.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The unit of `/proc/PID/stat`: USER_HZ, which is 100 on every architecture that Linux still runs on.
const TICKS_PER_SECOND: f64 = 100.0;
/// How long a program may take to open its port.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A running program that listens on a loopback port. Killed when dropped.
pub(super) struct Program {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Program {
    /// Starts `command` and waits until `address` accepts.
    pub(super) fn start(mut command: Command, address: SocketAddr, log: &Path) -> io::Result<Self> {
        let log = fs::File::create(log)?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut program = Self { child, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = program.child.try_wait()? {
                return Err(io::Error::other(format!("it ended at once ({status})")));
            }
            if started.elapsed() > START_LIMIT {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not open its port"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(program)
    }

    /// User and system time so far, in seconds.
    pub(super) fn cpu_seconds(&self) -> io::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name, in parentheses, may hold blanks.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: u64 = rest.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }

    /// The most memory it has held, in MiB.
    pub(super) fn peak_mib(&self) -> io::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|text| text.parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| io::Error::other("the kernel does not tell its memory"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback port that was free a moment ago.
pub(super) fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The program `name`: what the environment variable `variable` names, else in the folder of built
/// peers, else on the path.
pub(super) fn find(name: &str, variable: &str) -> Option<std::path::PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        return Some(named.into());
    }
    let built = std::env::var_os("CULVERT_PEERS").map(|folder| Path::new(&folder).join(name));
    built
        .into_iter()
        .chain(std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)))
        .find(|path| path.is_file())
}
