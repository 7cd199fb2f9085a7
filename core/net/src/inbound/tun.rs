//! The TUN inbound: each queue of the device is a shard, a thread with a current-thread runtime on
//! which the queue's flows and their outbounds are created, polled and dropped.

mod memory;
mod relay;
mod shard;
mod through;
mod udp;

pub use through::ThroughOutbound;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use bytes::Bytes;
use culvert_netstack::device::Device;
use culvert_netstack::stack::Limits;
use tokio::sync::watch;

use crate::outbound::{Associated, ConnectError};
use crate::stream::BoxStream;

/// Decides where the flows of a TUN device go, and connects them. One clone serves each shard, and
/// its futures run on that shard's thread.
pub trait TunDispatch: Clone + Send + 'static {
    /// Whether the application's SYN is answered before the outbound is connected, because the
    /// decision needs the first bytes that the application sends.
    fn needs_first_bytes(&self, source: SocketAddr, destination: SocketAddr) -> bool;

    /// Connects a TCP flow. `first_payload` is empty unless [`TunDispatch::needs_first_bytes`].
    /// On an error the application's connection is refused (reset).
    fn connect(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
        first_payload: Bytes,
    ) -> impl Future<Output = Result<Outlet, ConnectError>>;

    /// Opens an association for the datagrams that the application sends from `source`, to
    /// `destination` first and then to any other. On an error the datagrams are refused.
    fn associate(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> impl Future<Output = Result<Associated, ConnectError>>;
}

/// The outbound side of a TCP flow.
pub struct Outlet {
    /// Bytes written to it reach the target.
    pub stream: BoxStream,
    /// Whether the outbound has reported that the target was reached. When it has not, an end
    /// before the first byte is shown to the application as a reset.
    pub target_reached: bool,
    /// Told of every step.
    pub observer: Box<dyn FlowObserver>,
}

/// Follows one TCP flow: counts its bytes, and may end it.
pub trait FlowObserver {
    /// `bytes` more went from the application to the target.
    fn sent(&mut self, bytes: usize);

    /// `bytes` more came from the target to the application.
    fn received(&mut self, bytes: usize);

    /// Ready when the flow is to be closed from outside.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Follows nothing.
pub struct Unobserved;

impl FlowObserver for Unobserved {
    fn sent(&mut self, _: usize) {}

    fn received(&mut self, _: usize) {}

    fn poll_closed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// Makes the device of one shard, on that shard's thread and inside its runtime.
pub type OpenQueue = Box<dyn FnOnce() -> io::Result<Box<dyn Device>> + Send>;

/// A queue of a Linux TUN device from its descriptor (see
/// [`culvert_netstack::device::linux::TunQueue::new`]).
#[cfg(target_os = "linux")]
pub fn linux_queue(
    descriptor: std::os::fd::OwnedFd,
    vnet_header: bool,
    capabilities: culvert_netstack::device::Capabilities,
) -> OpenQueue {
    Box::new(move || {
        let queue = culvert_netstack::device::linux::TunQueue::new(descriptor, vnet_header, capabilities)?;
        Ok(Box::new(queue))
    })
}

/// The running inbound. Dropping it ends the shards and resets their flows.
pub struct TunInbound {
    stop: watch::Sender<bool>,
    shards: Vec<JoinHandle<io::Result<()>>>,
}

impl TunInbound {
    /// Starts one shard for each queue.
    ///
    /// # Errors
    /// A thread can't be started. (A queue that can't be opened ends its shard: see
    /// [`TunInbound::stop`].)
    pub fn start<T: TunDispatch>(queues: Vec<OpenQueue>, dispatch: &T, limits: Limits) -> io::Result<Self> {
        memory::return_large_blocks();
        let (stop, stopped) = watch::channel(false);
        let mut inbound = Self { stop, shards: Vec::with_capacity(queues.len()) };
        for (index, open) in queues.into_iter().enumerate() {
            let (dispatch, stopped) = (dispatch.clone(), stopped.clone());
            let shard = std::thread::Builder::new()
                .name(format!("tun-{index}"))
                .spawn(move || shard::run(open, dispatch, limits, stopped))?;
            inbound.shards.push(shard);
        }
        Ok(inbound)
    }

    /// Whether a shard has ended (its device is gone or broken).
    pub fn has_failed(&self) -> bool {
        self.shards.iter().any(JoinHandle::is_finished)
    }

    /// Ends the shards and waits for their threads.
    ///
    /// # Errors
    /// The first error that ended a shard before this was called.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.stop.send_replace(true);
        let mut result = Ok(());
        for shard in self.shards.drain(..) {
            let ended = shard.join().unwrap_or_else(|_| Err(io::Error::other("a shard panicked")));
            result = result.and(ended);
        }
        result
    }
}

impl Drop for TunInbound {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "a shard of the TUN device had ended");
        }
    }
}
