//! Where the device's flows go: by the router, and entered in the table of flows.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use culvert_net::inbound::tun::{FlowObserver, Outlet, TunDispatch};
use culvert_net::outbound::{Associated, ConnectError, ConnectRequest, Trace};
use culvert_wire::address::{Destination, Network};

use super::datagrams::pair;
use super::names::Questions;
use crate::dispatch::datagrams;
use crate::flows::{FlowTable, OpenFlow};
use crate::problem::of_connect;
use crate::router::{Choice, Router};

const INBOUND: &str = "tun";
const NAMES_PORT: u16 = 53;

/// Sends each flow the way that the router chooses, and questions to resolvers always through the
/// node.
#[derive(Clone)]
pub(super) struct TunnelDispatch {
    router: Arc<Router>,
    flows: Arc<FlowTable>,
    resolver: SocketAddr,
}

impl TunnelDispatch {
    pub(super) fn new(router: Arc<Router>, flows: Arc<FlowTable>, names: IpAddr) -> Self {
        Self { router, flows, resolver: SocketAddr::new(names, NAMES_PORT) }
    }

    fn choose(&self, destination: SocketAddr, network: Network) -> Choice {
        if destination.port() == NAMES_PORT {
            let way = self.router.way();
            let node = way.as_ref().and_then(|way| way.node.clone());
            return Choice { rule: "names", node, leave: way.map(|way| way.leave) };
        }
        self.router.choose(&Destination::from(destination), network, INBOUND)
    }
}

fn nowhere(rule: &str) -> ConnectError {
    ConnectError::NotOffered(format!("blocked by the rule {rule}, or no node is in use"))
}

impl TunDispatch for TunnelDispatch {
    fn needs_first_bytes(&self, _: SocketAddr, _: SocketAddr) -> bool {
        false
    }

    async fn connect(
        &self,
        _: SocketAddr,
        destination: SocketAddr,
        first_payload: Bytes,
    ) -> Result<Outlet, ConnectError> {
        let choice = self.choose(destination, Network::Tcp);
        let target = Destination::from(if destination.port() == NAMES_PORT { self.resolver } else { destination });
        let entry = self.flows.open(target.clone(), Network::Tcp, None);
        entry.decided(choice.rule, choice.node);
        let connected = match &choice.leave {
            Some(leave) => tokio::select! {
                connected = leave.connect(ConnectRequest { destination: target, first_payload }) => connected,
                () = entry.closed() => Err(ConnectError::NotOffered("the flow was closed".to_owned())),
            },
            None => Err(nowhere(choice.rule)),
        };
        match connected {
            Ok(connected) => {
                entry.connected(&connected.trace);
                let target_reached = choice.leave.is_some_and(|leave| leave.knows_target());
                Ok(Outlet { stream: connected.stream, target_reached, observer: Box::new(Observer::new(entry)) })
            }
            Err(error) => {
                tracing::debug!("{destination}: {error}");
                entry.failed(of_connect(&error));
                Err(error)
            }
        }
    }

    async fn associate(&self, _: SocketAddr, destination: SocketAddr) -> Result<Associated, ConnectError> {
        let choice = self.choose(destination, Network::Udp);
        if destination.port() == NAMES_PORT {
            let leave = choice.leave.ok_or_else(|| nowhere(choice.rule))?;
            return Ok(Associated { flow: Box::new(Questions::new(leave, self.resolver)), trace: Trace::start() });
        }
        let entry = self.flows.open(Destination::from(destination), Network::Udp, None);
        if choice.leave.is_none() {
            let error = nowhere(choice.rule);
            entry.failed(of_connect(&error));
            return Err(error);
        }
        let (ours, theirs) = pair();
        let router = Arc::clone(&self.router);
        tokio::spawn(async move {
            tokio::select! {
                () = entry.closed() => {}
                () = datagrams::serve(&entry, &router, INBOUND, ours) => {}
            }
        });
        Ok(Associated { flow: theirs, trace: Trace::start() })
    }
}

/// Enters a flow's bytes, and ends it when someone asks for that.
struct Observer {
    entry: OpenFlow,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Observer {
    fn new(entry: OpenFlow) -> Self {
        let watched = Arc::clone(&entry);
        Self { entry, closed: Box::pin(async move { watched.closed().await }) }
    }
}

impl FlowObserver for Observer {
    fn sent(&mut self, bytes: usize) {
        self.entry.counters().add_up(bytes as u64);
    }

    fn received(&mut self, bytes: usize) {
        self.entry.counters().add_down(bytes as u64);
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.closed.as_mut().poll(cx)
    }
}
