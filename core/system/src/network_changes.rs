//! Tells when the machine's network changes: another Wi-Fi, a cable pulled, a wake from sleep.

use std::time::Duration;

/// Changes come in bursts (a link, its addresses, its routes); one event is given for what comes within this time.
pub(crate) const SETTLE: Duration = Duration::from_millis(400);
/// A network that never rests must not keep us silent.
#[cfg(target_os = "linux")]
pub(crate) const SETTLE_AT_MOST: Duration = Duration::from_secs(3);

/// What has changed since the last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkChange {
    /// An interface came, went, or changed its state.
    pub links: bool,
    /// An address came or went.
    pub addresses: bool,
    /// A route of the main table came or went.
    pub routes: bool,
}

impl NetworkChange {
    pub(crate) fn any(self) -> bool {
        self.links || self.addresses || self.routes
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn merge(&mut self, other: Self) {
        self.links |= other.links;
        self.addresses |= other.addresses;
        self.routes |= other.routes;
    }
}

/// The watch could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("changes of the network can't be watched: {0}")]
pub struct WatchError(#[from] pub std::io::Error);

/// A watch over the network; it ends when dropped.
#[derive(Debug)]
pub struct NetworkWatch {
    _inner: crate::os::network_changes::Watch,
}

impl NetworkWatch {
    /// Calls `tell` (on a thread of the watch; it should not wait) after each change, when the burst has settled.
    /// Linux tells at once; Windows and macOS are looked at every two seconds.
    ///
    /// # Errors
    /// When the system gives no such events.
    pub fn start(tell: impl FnMut(NetworkChange) + Send + 'static) -> Result<Self, WatchError> {
        Ok(Self { _inner: crate::os::network_changes::Watch::start(tell)? })
    }
}

/// For systems without events we can use: looks at the addresses from which the machine would reach the world. No
/// packet is sent: connecting a datagram socket only asks the routing table.
#[cfg(not(target_os = "linux"))]
pub(crate) mod polling {
    use std::net::{IpAddr, UdpSocket};
    use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
    use std::time::Duration;

    use super::{NetworkChange, SETTLE};

    const EVERY: Duration = Duration::from_secs(2);

    #[derive(Debug)]
    pub(crate) struct Watch {
        /// Dropping it ends the thread.
        _alive: SyncSender<()>,
    }

    impl Watch {
        pub(crate) fn start(mut tell: impl FnMut(NetworkChange) + Send + 'static) -> std::io::Result<Self> {
            let (alive, ended) = sync_channel::<()>(0);
            std::thread::Builder::new().name("network-watch".into()).spawn(move || {
                let mut known = sources();
                while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    let mut now = sources();
                    if now == known {
                        continue;
                    }
                    // Let the burst settle: tell when two looks agree.
                    loop {
                        std::thread::sleep(SETTLE);
                        let again = sources();
                        if again == now {
                            break;
                        }
                        now = again;
                    }
                    let change = NetworkChange { links: false, addresses: now != known, routes: now != known };
                    known = now;
                    if change.any() {
                        tell(change);
                    }
                }
            })?;
            Ok(Self { _alive: alive })
        }
    }

    /// Documentation addresses (RFC 5737, RFC 3849): routed by default like any other.
    fn sources() -> [Option<IpAddr>; 2] {
        [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")].map(|(from, to)| {
            let socket = UdpSocket::bind(from).ok()?;
            socket.connect(to).ok()?;
            Some(socket.local_addr().ok()?.ip())
        })
    }
}
