//! The net as it is: outbounds, the mixed port, the demo server.

use std::net::SocketAddr;
use std::sync::Arc;

use culvert_ipc::types::{Problem, ReasonCode};
use culvert_net::dial::{DialOptions, Dialer};
use culvert_net::inbound::mixed::{Mixed, Options};
use culvert_net::inbound::shards::Shards;
use culvert_net::outbound::{ConnectRequest, Outbound};
use culvert_net::resolver::Resolver;
use culvert_profile::Node;

use crate::demo::Demo;
use crate::dispatch::Dispatcher;
use crate::flows::FlowTable;
use crate::leave::{Associating, Connecting, Leave};
use crate::net::{DemoServer, Net, Opening, Port, PortPlan, Starting};
use crate::router::Router;

/// The most threads that carry flows.
const MAX_SHARDS: usize = 8;

/// An outbound and what it dials with.
struct RealWay {
    outbound: Outbound,
    dialer: Dialer,
}

impl Leave for RealWay {
    fn is_direct(&self) -> bool {
        self.outbound.is_direct()
    }

    fn knows_target(&self) -> bool {
        matches!(self.outbound, Outbound::Direct | Outbound::Socks(_) | Outbound::Http(_))
    }

    fn connect(&self, request: ConnectRequest) -> Connecting<'_> {
        Box::pin(self.outbound.connect(&self.dialer, request))
    }

    fn associate(&self) -> Associating<'_> {
        Box::pin(self.outbound.associate(&self.dialer))
    }
}

impl RealNet {
    /// A net whose sockets are opened by `dialer`.
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer }
    }
}

/// The net of this computer.
pub struct RealNet {
    dialer: Dialer,
}

impl Default for RealNet {
    fn default() -> Self {
        Self { dialer: Dialer::new(DialOptions::default(), Resolver::system()) }
    }
}

impl Net for RealNet {
    fn direct(&self) -> Arc<dyn Leave> {
        Arc::new(RealWay { outbound: Outbound::Direct, dialer: self.dialer.clone() })
    }

    fn through(&self, node: &Node) -> Result<Arc<dyn Leave>, Problem> {
        let outbound = Outbound::from_node(node).map_err(|reason| Problem::new(ReasonCode::NotOffered, reason))?;
        Ok(Arc::new(RealWay { outbound, dialer: self.dialer.clone() }))
    }

    fn start_demo(&self) -> Starting<'_> {
        Box::pin(async {
            let demo = Demo::start().await?;
            Ok(Box::new(demo) as Box<dyn DemoServer>)
        })
    }

    fn open_port(&self, plan: PortPlan, router: Arc<Router>, flows: Arc<FlowTable>) -> Opening<'_> {
        Box::pin(async move {
            let count = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_SHARDS);
            let shards = Shards::start(count)?;
            let mut options =
                Options { address: plan.address.ip(), port: plan.address.port(), next_ports: 0, ..Options::default() };
            if !plan.only_my_programs {
                options.peer_user = None;
            }
            let mixed = Mixed::start(options, &shards, Arc::new(Dispatcher::new(router, flows)))?;
            Ok(Box::new(RealPort { mixed, _shards: shards }) as Box<dyn Port>)
        })
    }
}

/// The port and the threads of its flows, in the order in which they end.
struct RealPort {
    mixed: Mixed,
    _shards: Shards,
}

impl Port for RealPort {
    fn address(&self) -> SocketAddr {
        self.mixed.address()
    }
}
