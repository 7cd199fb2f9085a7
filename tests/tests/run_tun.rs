//! `culvert-core run LINK --tun` in network namespaces: applications and the core in the guest, the
//! proxy and the origin on the host. Needs root, and the core's binary (`CULVERT_CORE`, or the one
//! that was built beside this test).
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use culvert_system_privileged::linux::tunnel::{Places, dump};
use culvert_tests::netns::{HOST_V4, LINK, Network, SERVER_V4, Side, join, with_network};

const LIMIT: Duration = Duration::from_secs(30);
/// Where the proxy connects from, so that the origin can tell who asks.
const PROXY: &str = "127.0.0.7";
const PROXY_PORT: &str = "1080";

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn core() -> Option<PathBuf> {
    let built = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("culvert-core"));
    let core = std::env::var_os("CULVERT_CORE").map(PathBuf::from).or_else(built).filter(|path| path.is_file());
    if core.is_none() {
        assert!(std::env::var("CULVERT_REQUIRE_PEERS").as_deref() != Ok("1"), "culvert-core is not built");
        eprintln!("skipped: culvert-core is not built");
    }
    core
}

/// The core as it runs in the guest, with a resolver's file and folders of its own.
struct Core {
    child: Child,
}

impl Core {
    fn start(network: &Network, core: &Path, folder: &Path, more: &[&str]) -> io::Result<Self> {
        let link = format!("socks5://{HOST_V4}:{PROXY_PORT}");
        let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        let child = network
            .command(Side::Guest, "unshare")
            .args(["-m", "sh", "-c", script, "sh"])
            .arg(folder.join("resolv.conf"))
            .arg(core)
            .args(["run", &link, "--mixed", "127.0.0.1:0", "--tun", "--global", "--tun-dns", SERVER_V4])
            .args(more)
            .env("CULVERT_HOME", folder.join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { child })
    }

    /// Waits for the line that says that all is set up.
    fn ready(&mut self) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::Error::other(format!("the core ended: {}", self.errors()?)));
        }
        Ok(())
    }

    fn errors(&mut self) -> io::Result<String> {
        let mut errors = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut errors)?;
        Ok(errors)
    }

    /// Asks it to end, and waits for that.
    fn terminate(mut self) -> io::Result<()> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("{status}: {}", self.errors()?))) }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the guest's routes, rules and resolver are.
fn state(network: &Network, folder: &Path) -> io::Result<Vec<String>> {
    let places = Places { journal: folder.join("unused"), resolver: folder.join("resolv.conf") };
    join(network.inside(Side::Guest, move || dump(&places)))
}

/// Waits until the guest's state no longer changes of itself.
fn settled(network: &Network, folder: &Path) -> io::Result<Vec<String>> {
    let limit = Instant::now() + LIMIT;
    let mut last = state(network, folder)?;
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = state(network, folder)?;
        // The link's own IPv6 address comes a second after the link, with routes.
        let addresses = network.run(Side::Guest, "ip", &["-6", "address", "show", "dev", LINK])?;
        let complete = addresses.contains("fe80") && !addresses.contains("tentative");
        if (now == last && complete) || Instant::now() > limit {
            return Ok(now);
        }
        last = now;
    }
}

/// An origin on the host that answers every request, and tells who asked.
fn origin(network: &Network) -> io::Result<(SocketAddr, Receiver<SocketAddr>)> {
    let (address, bound) = channel();
    let (seen, asked) = channel();
    drop(network.inside(Side::Host, move || {
        let listener = TcpListener::bind((SERVER_V4.parse::<Ipv4Addr>().map_err(io::Error::other)?, 0))?;
        address.send(listener.local_addr()?).map_err(io::Error::other)?;
        loop {
            let (stream, from) = listener.accept()?;
            if seen.send(from).is_err() {
                return Ok(());
            }
            // A client that goes away early is its own affair.
            let _ = answer(stream);
        }
    }));
    Ok((bound.recv_timeout(LIMIT).map_err(io::Error::other)?, asked))
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut request = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nthrough")
}

/// A resolver on the host that answers each question over TCP with an empty answer.
fn resolver(network: &Network) -> io::Result<()> {
    let (ready, bound) = channel();
    drop(network.inside(Side::Host, move || {
        let listener = TcpListener::bind((SERVER_V4.parse::<Ipv4Addr>().map_err(io::Error::other)?, 53))?;
        ready.send(()).map_err(io::Error::other)?;
        loop {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(LIMIT))?;
            let mut length = [0; 2];
            let mut question = vec![0; 512];
            if stream.read_exact(&mut length).is_err() {
                continue;
            }
            question.truncate(usize::from(u16::from_be_bytes(length)));
            stream.read_exact(&mut question)?;
            question[2] |= 0x80;
            stream.write_all(&length)?;
            stream.write_all(&question)?;
        }
        #[expect(unreachable_code, reason = "gives the thread its type")]
        Ok(())
    }));
    bound.recv_timeout(LIMIT).map_err(io::Error::other)
}

/// A curl in the guest reaches the origin, and the origin sees the proxy.
fn passes(network: &Network, origin: SocketAddr, asked: &Receiver<SocketAddr>) -> io::Result<()> {
    while asked.try_recv().is_ok() {}
    let page =
        network.run(Side::Guest, "curl", &["-sS", "--noproxy", "*", "-m", "20", &format!("http://{origin}/")])?;
    assert_eq!(page, "through");
    assert_eq!(asked.recv_timeout(LIMIT).map_err(io::Error::other)?.ip().to_string(), PROXY);
    Ok(())
}

/// A question to a resolver that does not exist is answered in its name.
fn names_are_answered(network: &Network) -> io::Result<()> {
    join(network.inside(Side::Guest, || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.connect("203.0.113.53:53")?;
        let mut question = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        question.extend_from_slice(b"\x04test\0\0\x01\0\x01");
        socket.send(&question)?;
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer)?;
        assert_eq!(answer[..2], [0x12, 0x34]);
        assert_eq!((answer[2] & 0x80, length), (0x80, question.len()));
        Ok(())
    }))
}

#[test]
fn a_tunnel_carries_the_guest_and_leaves_nothing() {
    let Some(core) = core() else { return };
    with_network(&["microsocks", "curl", "unshare", "mount"], |network| {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("resolv.conf"), format!("nameserver {HOST_V4}\n"))?;
        network.spawn(Side::Host, "microsocks", &["-i", "0.0.0.0", "-p", PROXY_PORT, "-b", PROXY])?;
        network.wait_for_listener(Side::Host, 1080)?;
        let (address, asked) = origin(network)?;
        resolver(network)?;
        let before = settled(network, folder.path())?;
        let check = format!("http://{address}/");

        // Killed.
        let mut killed = Core::start(network, &core, folder.path(), &["--check-url", &check])?;
        killed.ready()?;
        assert_ne!(state(network, folder.path())?, before);
        passes(network, address, &asked)?;
        names_are_answered(network)?;
        drop(killed);
        assert_ne!(state(network, folder.path())?, before, "this start has something to repair");

        // Started again, and ended in good order.
        let mut ended = Core::start(network, &core, folder.path(), &["--check-url", &check])?;
        ended.ready()?;
        passes(network, address, &asked)?;
        ended.terminate()?;
        assert_eq!(state(network, folder.path())?, before);

        // A page that can't be reached: all is put back, and the core ends with the reason.
        let mut refused =
            Core::start(network, &core, folder.path(), &["--check-url", &format!("http://{SERVER_V4}:9/")])?;
        assert!(!refused.child.wait()?.success());
        let errors = refused.errors()?;
        assert!(errors.contains("all is as before"), "{errors}");
        assert_eq!(state(network, folder.path())?, before);
        Ok(())
    });
}
