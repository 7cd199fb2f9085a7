//! The TUN mode: every flow of this computer through the ways of a [`Router`]. Linux only.
//!
//! Where this process has CAP_NET_ADMIN it opens the tunnel itself; else the helper does.

mod datagrams;
mod dispatch;
mod lease;
mod names;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use culvert_ipc::types::Problem;
use culvert_net::inbound::tun::{TunInbound, linux_queue};
use culvert_net::resolver::ResolveError;
use culvert_netstack::device::Capabilities;
use culvert_netstack::stack::Limits;
use culvert_system_privileged::linux::client::HelperError;
use culvert_system_privileged::linux::tunnel::{Places, TunnelError};

use crate::fetch::{Fetcher, Page};
use crate::flows::FlowTable;
use crate::measure::check_status;
use crate::net::Net;
use crate::problem::timed_out;
use crate::real::RealNet;
use crate::router::Router;

pub use lease::Bypass;

/// What the tunnel shall do.
#[derive(Debug, Clone)]
pub struct TunnelSettings {
    /// The resolver that every question to port 53 is put to, through the node, whichever
    /// resolver the application meant.
    pub names: IpAddr,
    /// The local network and other tunnels stay outside.
    pub local_direct: bool,
    /// The device's MTU in bytes, 1280 to 65535.
    pub mtu: u16,
}

/// Why the TUN mode can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TunnelFailure {
    /// No rights, and no helper.
    #[error(
        "the TUN mode needs rights that this program doesn't have: run it as root (or give it CAP_NET_ADMIN), \
         or install the helper once with `sudo culvert-helper install`. {0}"
    )]
    Rights(HelperError),
    /// The helper can't do it.
    #[error(transparent)]
    Helper(HelperError),
    /// The system can't.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// The flows can't be served.
    #[error("the flows of the TUN device can't be served: {0}")]
    Flows(#[from] io::Error),
    /// The node's name has no address, and behind the tunnel it could not be asked for.
    #[error("the node's name {name} can't be resolved: {source}")]
    Node {
        /// The name.
        name: String,
        /// Why.
        source: ResolveError,
    },
}

/// An open tunnel with its flows. Dropped, it ends the flows and undoes what it changed.
pub struct RunningTunnel {
    // In this order they end.
    inbound: TunInbound,
    lease: lease::Lease,
}

impl RunningTunnel {
    /// Opens the tunnel. All ways of `router` must dial with `bypass`.
    ///
    /// # Errors
    /// No rights, or a step that the system refuses; then all is as before.
    pub fn start(
        settings: &TunnelSettings,
        bypass: &Bypass,
        router: Arc<Router>,
        flows: Arc<FlowTable>,
    ) -> Result<Self, TunnelFailure> {
        let opened = bypass.open(settings)?;
        let queues =
            opened.queues.into_iter().map(|queue| linux_queue(queue, true, opened.capabilities)).collect::<Vec<_>>();
        let dispatch = dispatch::TunnelDispatch::new(router, flows, settings.names);
        let inbound = TunInbound::start(queues, &dispatch, Limits::default())?;
        Ok(Self { inbound, lease: opened.lease })
    }

    /// Whether the device has gone or broken; the tunnel must then be closed.
    pub fn has_failed(&self) -> bool {
        self.inbound.has_failed()
    }

    /// Ends the flows and undoes what was changed.
    ///
    /// # Errors
    /// A step of the undoing that the system refuses; it is tried again at the next start.
    pub fn close(self) -> Result<(), TunnelFailure> {
        let Self { inbound, lease } = self;
        if let Err(error) = inbound.stop() {
            tracing::warn!("a queue of the TUN device had ended: {error}");
        }
        lease.close()
    }
}

/// Fetches `page` as any application would, so through the tunnel: its name, its connection, its
/// answer (of status 200 to 399).
///
/// # Errors
/// What did not work, or that it took longer than `limit`.
pub async fn check(page: &Page, limit: Duration) -> Result<(), Problem> {
    let applications = RealNet::default().direct();
    let fetch = async {
        let mut fetcher = Fetcher::open(page.clone(), &*applications).await.map_err(|(problem, _)| problem)?;
        let (response, _) = fetcher.get().await?;
        check_status(response.status().as_u16(), 0)
    };
    tokio::time::timeout(limit, fetch).await.unwrap_or_else(|_| Err(timed_out("first_byte", limit)))
}

/// Undoes what an earlier tunnel of this process's kind left behind, if anything.
///
/// # Errors
/// A tunnel is open, or a step that the system refuses.
pub fn repair(journal: &Path) -> Result<(), TunnelFailure> {
    if journal.exists() {
        culvert_system_privileged::linux::tunnel::repair(&Places::with_journal(journal))?;
    }
    Ok(())
}

/// What the stack is told of a device.
fn capabilities(mtu: u16, checksum: bool, tcp_segmentation: bool, udp_segmentation: bool) -> Capabilities {
    Capabilities { mtu: usize::from(mtu), checksum, tcp_segmentation, udp_segmentation }
}
