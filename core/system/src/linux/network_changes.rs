//! The kernel's own news (`rtnetlink(7)` multicast groups).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, netlink};

use crate::network_changes::{NetworkChange, SETTLE, SETTLE_AT_MOST};

/// Links, IPv4 addresses, IPv4 routes, IPv6 addresses, IPv6 routes.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
const HEADER: usize = 16;
/// The tables of a host's own and broadcast addresses: they follow the addresses, which are told anyway.
const LOCAL_TABLE: u8 = 255;
/// Newer kernels pack at most this much.
const BUFFER: usize = 32 * 1024;

#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn start(tell: impl FnMut(NetworkChange) + Send + 'static) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // NETLINK_ROUTE is protocol 0, the default.
        let kernel = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::bind(&kernel, &netlink::SocketAddrNetlink::new(0, GROUPS))?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let thread = std::thread::Builder::new().name("network-watch".into()).spawn({
            let stop = Arc::clone(&stop);
            move || {
                if let Err(error) = watch(&kernel, &stop, tell) {
                    tracing::warn!(%error, "the watch over the network has ended");
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // An eventfd takes eight bytes at any time.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(kernel: &OwnedFd, stop: &OwnedFd, mut tell: impl FnMut(NetworkChange)) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        if wait(kernel, stop, None)? == Woken::Stop {
            return Ok(());
        }
        let started = Instant::now();
        let mut change = NetworkChange::default();
        loop {
            change.merge(read_all(kernel, &mut buffer)?);
            if !change.any() {
                break;
            }
            let left = SETTLE_AT_MOST.saturating_sub(started.elapsed()).min(SETTLE);
            if left.is_zero() {
                break;
            }
            match wait(kernel, stop, Some(left))? {
                Woken::Stop => return Ok(()),
                Woken::News => {}
                Woken::Time => break,
            }
        }
        if change.any() {
            tell(change);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Woken {
    News,
    Stop,
    Time,
}

fn wait(kernel: &OwnedFd, stop: &OwnedFd, limit: Option<std::time::Duration>) -> io::Result<Woken> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    loop {
        let mut both = [PollFd::new(kernel, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut both, limit.as_ref()) {
            Ok(0) => return Ok(Woken::Time),
            Ok(_) if !both[1].revents().is_empty() => return Ok(Woken::Stop),
            Ok(_) => return Ok(Woken::News),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn read_all(kernel: &OwnedFd, buffer: &mut [u8]) -> io::Result<NetworkChange> {
    let mut change = NetworkChange::default();
    loop {
        match rustix::net::recv(kernel, &mut *buffer, RecvFlags::empty()) {
            Ok((_, length)) => change.merge(parse(buffer.get(..length).unwrap_or(buffer))),
            Err(Errno::AGAIN) => return Ok(change),
            Err(Errno::INTR) => {}
            // We were too slow and some news is lost: assume all of it.
            Err(Errno::NOBUFS) => change.merge(NetworkChange { links: true, addresses: true, routes: true }),
            Err(error) => return Err(error.into()),
        }
    }
}

fn parse(mut messages: &[u8]) -> NetworkChange {
    let mut change = NetworkChange::default();
    while let Some(header) = messages.get(..HEADER) {
        let length =
            usize::try_from(u32::from_ne_bytes([header[0], header[1], header[2], header[3]])).unwrap_or(usize::MAX);
        let Some(body) = messages.get(HEADER..length) else {
            break;
        };
        match u16::from_ne_bytes([header[4], header[5]]) {
            // New and gone of each; `struct rtmsg` has the table at its fifth byte.
            16 | 17 => change.links = true,
            20 | 21 => change.addresses = true,
            24 | 25 if body.get(4) != Some(&LOCAL_TABLE) => change.routes = true,
            _ => {}
        }
        messages = messages.get((length + 3) & !3..).unwrap_or_default();
    }
    change
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend([0; 10]);
        out.extend(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn messages_are_told_apart() {
        assert_eq!(parse(&[]), NetworkChange::default());
        let mut both = message(20, &[0; 9]);
        both.extend(message(24, &[0, 0, 0, 0, 254]));
        assert_eq!(parse(&both), NetworkChange { links: false, addresses: true, routes: true });
        assert_eq!(parse(&message(24, &[0, 0, 0, 0, LOCAL_TABLE])), NetworkChange::default());
        assert_eq!(parse(&message(16, &[])[..12]), NetworkChange::default());
        assert_eq!(parse(&[0; 64]), NetworkChange::default());
    }

    /// Runs itself again in a network namespace of its own, where it may add an address.
    #[test]
    fn an_address_that_comes_is_told_once() {
        const INSIDE: &str = "CULVERT_TEST_IN_NAMESPACE";
        if std::env::var_os(INSIDE).is_none() {
            let test = "linux::network_changes::tests::an_address_that_comes_is_told_once";
            let output = Command::new("unshare")
                .args(["--net", "--"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture"])
                .env(INSIDE, "1")
                .output();
            match output {
                Ok(output) if output.status.success() => {}
                Ok(output) if String::from_utf8_lossy(&output.stderr).contains("unshare failed") => {
                    println!("skipped: no network namespace can be made here");
                    assert!(std::env::var_os("CULVERT_REQUIRE_PEERS").is_none());
                }
                Ok(output) => {
                    panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
                }
                Err(error) => {
                    println!("skipped: unshare: {error}");
                    assert!(std::env::var_os("CULVERT_REQUIRE_PEERS").is_none());
                }
            }
            return;
        }
        let (sender, events) = channel();
        let watch = Watch::start(move |change| sender.send(change).unwrap()).unwrap();
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        assert!(Command::new("ip").args(["address", "add", "10.9.8.7/32", "dev", "lo"]).status().unwrap().success());
        let change = events.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(change.links && change.addresses);
        drop(watch);
        assert!(events.recv().is_err(), "one event for the whole burst");
    }
}
