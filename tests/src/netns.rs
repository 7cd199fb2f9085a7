//! Two network namespaces, host and guest, over a veth pair. The guest is where applications and
//! the program under test run; the host has the servers. Everything is removed when the value is
//! dropped, also when a test fails.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The host's address on the veth pair, reached past the tunnel.
pub const HOST_V4: &str = "10.201.0.1";
/// The same in IPv6.
pub const HOST_V6: &str = "fdc0:201::1";
/// The guest's address on the veth pair.
pub const GUEST_V4: &str = "10.201.0.2";
/// The same in IPv6.
pub const GUEST_V6: &str = "fdc0:201::2";
/// A host address that the guest reaches only through its tunnel (or by binding to [`LINK`]).
pub const SERVER_V4: &str = "10.202.0.1";
/// The same in IPv6.
pub const SERVER_V6: &str = "fdc0:202::1";
/// The guest's end of the veth pair.
pub const LINK: &str = "veth0";

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Which namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The servers' side.
    Host,
    /// The applications' side.
    Guest,
}

/// The namespaces, and the programs that were started in them.
pub struct Network {
    host: String,
    guest: String,
    children: Vec<Child>,
}

impl Network {
    /// Makes the namespaces with a veth pair of MTU 1500.
    ///
    /// # Errors
    /// No permission (this needs root), or iproute2 is missing.
    pub fn new() -> io::Result<Self> {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let tag = format!("culvert{}n{number}", std::process::id());
        let network = Self { host: format!("{tag}h"), guest: format!("{tag}g"), children: Vec::new() };
        ip(&["netns", "add", &network.host])?;
        ip(&["netns", "add", &network.guest])?;
        ip(&[
            "link",
            "add",
            LINK,
            "netns",
            &network.guest,
            "type",
            "veth",
            "peer",
            "name",
            LINK,
            "netns",
            &network.host,
        ])?;
        for (side, v4, v6) in [(Side::Host, HOST_V4, HOST_V6), (Side::Guest, GUEST_V4, GUEST_V6)] {
            network.ip(side, &["link", "set", "lo", "up"])?;
            network.ip(side, &["addr", "add", &format!("{v4}/24"), "dev", LINK])?;
            network.ip(side, &["addr", "add", &format!("{v6}/64"), "dev", LINK, "nodad"])?;
            network.ip(side, &["link", "set", LINK, "up"])?;
        }
        network.ip(Side::Host, &["addr", "add", &format!("{SERVER_V4}/32"), "dev", "lo"])?;
        network.ip(Side::Host, &["addr", "add", &format!("{SERVER_V6}/128"), "dev", "lo", "nodad"])?;
        // Used by sockets that are bound to the link; the tunnel's default has a lower metric.
        network.ip(Side::Guest, &["route", "add", "default", "via", HOST_V4, "metric", "9000"])?;
        network.ip(Side::Guest, &["-6", "route", "add", "default", "via", HOST_V6, "metric", "9000"])?;
        Ok(network)
    }

    /// Runs `ip` in a namespace.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn ip(&self, side: Side, arguments: &[&str]) -> io::Result<()> {
        let mut all = vec!["-n", self.name(side)];
        all.extend(arguments);
        ip(&all)
    }

    fn name(&self, side: Side) -> &str {
        match side {
            Side::Host => &self.host,
            Side::Guest => &self.guest,
        }
    }

    /// A command that will run in a namespace.
    pub fn command(&self, side: Side, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(side), program]);
        command
    }

    /// Runs a program to its end and returns its output.
    ///
    /// # Errors
    /// It can't be started, or ends with a failure: the error holds what it wrote.
    pub fn run(&self, side: Side, program: &str, arguments: &[&str]) -> io::Result<String> {
        let output = self.command(side, program).args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("{program} {arguments:?}: {errors}{text}")))
    }

    /// Starts a program that lives until the network is dropped. Returns its process id.
    ///
    /// # Errors
    /// It can't be started.
    pub fn spawn(&mut self, side: Side, program: &str, arguments: &[&str]) -> io::Result<u32> {
        let mut command = self.command(side, program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        if std::env::var_os("CULVERT_TEST_LOG").is_none() {
            command.stderr(Stdio::null());
        }
        let child = command.spawn()?;
        let id = child.id();
        self.children.push(child);
        Ok(id)
    }

    /// Starts a program that writes a line when it is ready, and waits for that line.
    ///
    /// # Errors
    /// It can't be started, or ends before it is ready.
    pub fn spawn_ready(&mut self, side: Side, program: &str, arguments: &[&str]) -> io::Result<u32> {
        let mut command = self.command(side, program);
        let child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let id = child.id();
        self.children.push(child);
        let output = self.children.last_mut().and_then(|child| child.stdout.take());
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line.is_empty() {
            return Err(io::Error::other(format!("{program} ended before it was ready")));
        }
        Ok(id)
    }

    /// Ends a program that this network started.
    ///
    /// # Errors
    /// It can't be signalled.
    pub fn stop(&mut self, id: u32) -> io::Result<()> {
        if let Some(index) = self.children.iter().position(|child| child.id() == id) {
            let mut child = self.children.swap_remove(index);
            let killed = child.kill();
            child.wait()?;
            killed?;
        }
        Ok(())
    }

    /// Waits until something listens on a TCP port in a namespace.
    ///
    /// # Errors
    /// Nothing listens within ten seconds.
    pub fn wait_for_listener(&self, side: Side, port: u16) -> io::Result<()> {
        let limit = Instant::now() + Duration::from_secs(10);
        loop {
            let listening = self.run(side, "ss", &["-Hltn", &format!("sport = :{port}")]).unwrap_or_default();
            if !listening.trim().is_empty() {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err(io::Error::other(format!("nothing listens on port {port}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Has both families' default routes of the guest lead into `device`.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn route_into(&self, device: &str) -> io::Result<()> {
        self.ip(Side::Guest, &["route", "add", "default", "dev", device, "metric", "1"])?;
        self.ip(Side::Guest, &["-6", "route", "add", "default", "dev", device, "metric", "1"])
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Already gone is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in [&self.guest, &self.host] {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {errors}", arguments.join(" "))))
}

/// Runs `test` with a new network; without root or one of `programs` says why it is skipped (and
/// fails if `CULVERT_REQUIRE_PEERS` is 1).
///
/// # Panics
/// When `test` fails, or peers are required and missing.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn with_network(programs: &[&str], test: impl FnOnce(&mut Network) -> io::Result<()>) {
    let missing: Vec<_> = ["ip", "ss"].iter().chain(programs).filter(|name| !is_installed(name)).collect();
    let result =
        if missing.is_empty() { Network::new() } else { Err(io::Error::other(format!("not installed: {missing:?}"))) };
    match result {
        Ok(mut network) => {
            if let Err(error) = test(&mut network) {
                panic!("{error}");
            }
        }
        Err(error) => {
            assert!(std::env::var("CULVERT_REQUIRE_PEERS").as_deref() != Ok("1"), "{error}");
            eprintln!("skipped: no network namespaces: {error}");
        }
    }
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

impl Network {
    /// Runs `act` on a thread inside a namespace: sockets that it makes belong there.
    ///
    /// # Errors
    /// The namespace can't be entered, or `act` fails or panics.
    pub fn inside<T: Send + 'static>(
        &self,
        side: Side,
        act: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> std::thread::JoinHandle<io::Result<T>> {
        let path = format!("/run/netns/{}", self.name(side));
        std::thread::spawn(move || {
            let namespace = std::fs::File::open(path)?;
            rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                Some(rustix::thread::LinkNameSpaceType::Network),
            )?;
            act()
        })
    }
}

/// Waits for a thread of [`Network::inside`].
///
/// # Errors
/// What the thread failed with, or that it panicked.
pub fn join<T>(thread: std::thread::JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the test panicked")))
}
