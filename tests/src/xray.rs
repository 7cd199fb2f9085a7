//! Xray-core as a peer: named by CULVERT_PEER_XRAY, started with a configuration of the test.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that ends with the test.
pub struct Process {
    child: Child,
    /// Kept until the program has ended.
    _files: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary, or `None` (with the reason printed) when no variable names one.
#[expect(clippy::print_stderr, reason = "a skipped test says why")]
pub fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("CULVERT_PEER_XRAY").map(PathBuf::from).filter(|path| path.is_file());
    if named.is_none() {
        eprintln!("skipped: CULVERT_PEER_XRAY names no Xray binary");
    }
    named
}

/// An address of the loopback that was free a moment ago.
pub fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Starts Xray with this configuration and waits until it listens on `address`.
pub fn start(binary: &PathBuf, configuration: &serde_json::Value, address: SocketAddr) -> std::io::Result<Process> {
    let files = tempfile::tempdir()?;
    let path = files.path().join("config.json");
    std::fs::File::create(&path)?.write_all(configuration.to_string().as_bytes())?;
    let mut command = Command::new(binary);
    command.arg("run").arg("-c").arg(path);
    spawn(command, files, address)
}

/// Starts a program and waits until it listens on `address`.
pub fn spawn(mut command: Command, files: tempfile::TempDir, address: SocketAddr) -> std::io::Result<Process> {
    let show = std::env::var_os("CULVERT_TEST_VERBOSE").is_some();
    let output = || if show { Stdio::inherit() } else { Stdio::null() };
    let child = command.stdin(Stdio::null()).stdout(output()).stderr(output()).spawn()?;
    let mut process = Process { child, _files: files };
    let limit = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(address).is_err() {
        if let Some(status) = process.child.try_wait()? {
            return Err(std::io::Error::other(format!("the peer ended before it listened: {status}")));
        }
        if Instant::now() > limit {
            return Err(std::io::Error::other("the peer does not listen"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(process)
}

/// A certificate for `name` and its key, made by openssl into a folder: `cert.pem`, `key.pem`.
pub fn certificate(name: &str) -> std::io::Result<tempfile::TempDir> {
    let files = tempfile::tempdir()?;
    let status = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")])
        .arg("-keyout")
        .arg(files.path().join("key.pem"))
        .arg("-out")
        .arg(files.path().join("cert.pem"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(files) } else { Err(std::io::Error::other("openssl made no certificate")) }
}

/// `openssl s_server` for `name` with extra arguments, which shows a status page over HTTP/1.
pub fn openssl_server(name: &str, extra: &[&str]) -> std::io::Result<(Process, SocketAddr)> {
    let files = certificate(name)?;
    let address = free_address()?;
    let mut command = Command::new("openssl");
    command.args(["s_server", "-www", "-accept", &address.to_string()]);
    command.arg("-cert").arg(files.path().join("cert.pem")).arg("-key").arg(files.path().join("key.pem")).args(extra);
    Ok((spawn(command, files, address)?, address))
}
