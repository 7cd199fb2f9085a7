//! What the engine needs from the net: ways out, and the local port.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use culvert_ipc::types::Problem;
use culvert_profile::Node;

use crate::flows::FlowTable;
use crate::leave::Leave;
use crate::router::Router;

/// How the local port is to be opened.
#[derive(Debug, Clone)]
pub struct PortPlan {
    /// Address and port.
    pub address: SocketAddr,
    /// Refuse programs of other users.
    pub only_my_programs: bool,
}

/// The open local port. Closed when dropped; flows that came through it are ended too.
pub trait Port: Send + Sync {
    /// Where it listens.
    fn address(&self) -> SocketAddr;
}

/// A port that is being opened.
pub type Opening<'a> = Pin<Box<dyn Future<Output = std::io::Result<Box<dyn Port>>> + Send + 'a>>;

/// A demo server on this computer. Ends when dropped.
pub trait DemoServer: Send + Sync {
    /// Its share links.
    fn links(&self) -> Vec<String>;
}

/// A demo server that is being started.
pub type Starting<'a> = Pin<Box<dyn Future<Output = std::io::Result<Box<dyn DemoServer>>> + Send + 'a>>;

/// Makes ways and ports. One implementation is real ([`crate::real::RealNet`]); tests bring their own.
pub trait Net: Send + Sync {
    /// The way that leads out directly.
    fn direct(&self) -> Arc<dyn Leave>;

    /// The way through `node`.
    ///
    /// # Errors
    /// Why the node can't be used.
    fn through(&self, node: &Node) -> Result<Arc<dyn Leave>, Problem>;

    /// Starts a demo server.
    fn start_demo(&self) -> Starting<'_>;

    /// Opens the local port.
    fn open_port(&self, plan: PortPlan, router: Arc<Router>, flows: Arc<FlowTable>) -> Opening<'_>;
}
