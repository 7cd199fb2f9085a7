//! How a flow leaves, seen from the engine: one narrow interface over the outbounds, so that tests
//! and the dispatcher need no particular one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use culvert_ipc::types::NodeRef;
use culvert_net::outbound::{Associated, ConnectError, ConnectRequest, Connected};

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connected, ConnectError>> + Send + 'a>>;

/// An association that is being made.
pub type Associating<'a> = Pin<Box<dyn Future<Output = Result<Associated, ConnectError>> + Send + 'a>>;

/// A way out of this computer.
pub trait Leave: Send + Sync {
    /// Whether connecting touches the target itself, so that its failure is known before the
    /// application is told anything.
    fn is_direct(&self) -> bool {
        false
    }

    /// Whether a stream is there only when the target was reached, because the target or the proxy
    /// has answered.
    fn knows_target(&self) -> bool {
        self.is_direct()
    }

    /// Opens a stream to the request's target.
    fn connect(&self, request: ConnectRequest) -> Connecting<'_>;

    /// Opens a UDP association.
    fn associate(&self) -> Associating<'_>;
}

/// A way out, and the node that it leads through (none: directly).
#[derive(Clone)]
pub struct Way {
    /// The node.
    pub node: Option<NodeRef>,
    /// The way.
    pub leave: Arc<dyn Leave>,
}
