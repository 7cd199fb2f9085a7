//! The way of one flow: decide, connect, relay, with every step entered in the table.

pub(crate) mod datagrams;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use culvert_ipc::types::{Problem, ReasonCode};
use culvert_net::datagram::BoxDatagramFlow;
use culvert_net::inbound::flow::{Client, Dispatch, Dispatching, Flow};
use culvert_net::outbound::{ConnectError, ConnectRequest};
use culvert_net::relay::{Limits, RelayEnd, Side, relay};
use culvert_net::stream::BoxStream;
use tokio::io::AsyncReadExt;

use crate::flows::{FlowTable, OpenFlow};
use crate::leave::Leave;
use crate::problem::of_connect;
use crate::router::Router;

/// How long an application that was told "connected" may take to send its first bytes, which then
/// travel with the protocol's header. Applications that wait for the server to speak lose this.
const FIRST_BYTES_WITHIN: Duration = Duration::from_millis(30);
/// The most of the first bytes; a ClientHello with a hybrid key share fits.
const FIRST_BYTES: usize = 4 * 1024;

/// Serves flows of inbounds.
#[derive(Clone)]
pub struct Dispatcher {
    router: Arc<Router>,
    flows: Arc<FlowTable>,
}

impl Dispatcher {
    /// A dispatcher that asks `router` and enters flows in `flows`.
    pub fn new(router: Arc<Router>, flows: Arc<FlowTable>) -> Self {
        Self { router, flows }
    }

    async fn serve_stream(self, flow: Flow, client: Client) {
        let entry = self.flows.open(flow.destination.clone(), flow.network, None);
        let choice = self.router.choose(&flow.destination, flow.network, &flow.inbound);
        entry.decided(choice.rule, choice.node);
        let Some(leave) = choice.leave else {
            let error = ConnectError::NotOffered(format!("blocked by the rule {}, or no node is in use", choice.rule));
            entry.failed(of_connect(&error));
            let _ = client.refuse(&error).await;
            return;
        };
        let serve = serve(&entry, &flow, client, &*leave);
        tokio::select! {
            () = entry.closed() => {}
            () = serve => {}
        }
    }
}

impl Dispatch for Dispatcher {
    fn dispatch_stream(&self, flow: Flow, client: Client) -> Dispatching {
        Box::pin(self.clone().serve_stream(flow, client))
    }

    fn dispatch_datagrams(&self, flow: Flow, client: BoxDatagramFlow) -> Dispatching {
        let (router, flows) = (Arc::clone(&self.router), Arc::clone(&self.flows));
        Box::pin(async move {
            let inbound = flow.inbound;
            let entry = flows.open(flow.destination, flow.network, None);
            let serve = datagrams::serve(&entry, &router, &inbound, client);
            tokio::select! {
                () = entry.closed() => {}
                () = serve => {}
            }
        })
    }
}

async fn serve(entry: &OpenFlow, flow: &Flow, client: Client, leave: &dyn Leave) {
    // A direct target's failure can be told exactly; behind a proxy the first bytes come first.
    let (mut local, mut remote) = if leave.is_direct() {
        let connected = match leave.connect(request(flow, Bytes::new())).await {
            Ok(connected) => connected,
            Err(error) => {
                entry.failed(of_connect(&error));
                let _ = client.refuse(&error).await;
                return;
            }
        };
        entry.connected(&connected.trace);
        match client.accept().await {
            Ok(local) => (local, connected.stream),
            Err(_) => return,
        }
    } else {
        let Ok(mut local) = client.accept().await else { return };
        let first = match first_bytes(&mut local).await {
            Ok(first) => first,
            Err(_) => return,
        };
        entry.counters().add_up(first.len() as u64);
        match leave.connect(request(flow, first)).await {
            Ok(connected) => {
                entry.connected(&connected.trace);
                (local, connected.stream)
            }
            Err(error) => {
                tracing::debug!("{}: {error}", flow.destination);
                entry.failed(of_connect(&error));
                return;
            }
        }
    };
    let end = relay(&mut local, &mut remote, entry.counters(), Limits::default()).await;
    if let RelayEnd::Failed { side: Side::Remote, error } = end {
        entry.failed(Problem::new(ReasonCode::Network, error.to_string()));
    }
}

fn request(flow: &Flow, first_payload: Bytes) -> ConnectRequest {
    ConnectRequest { destination: flow.destination.clone(), first_payload }
}

/// What the application sends at once; empty when it waits.
async fn first_bytes(local: &mut BoxStream) -> std::io::Result<Bytes> {
    let mut buffer = BytesMut::with_capacity(FIRST_BYTES);
    match tokio::time::timeout(FIRST_BYTES_WITHIN, local.read_buf(&mut buffer)).await {
        Ok(read) => read.map(|_| buffer.freeze()),
        Err(_) => Ok(Bytes::new()),
    }
}
