//! All flows of a TUN device through one outbound.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use culvert_wire::Destination;

use super::{FlowObserver, Outlet, TunDispatch};
use crate::dial::Dialer;
use crate::outbound::{Associated, ConnectError, ConnectRequest, Connected, Outbound};
use crate::relay::Counters;

/// Sends every flow through one outbound and counts all bytes together.
#[derive(Clone)]
pub struct ThroughOutbound {
    outbound: Arc<Outbound>,
    dialer: Dialer,
    counters: Arc<Counters>,
}

impl ThroughOutbound {
    /// Everything through `outbound`. The sockets of `dialer` must go past the device (its
    /// interface, mark or protection): else each flow would come back as a new one.
    pub fn new(outbound: Arc<Outbound>, dialer: Dialer) -> Self {
        Self { outbound, dialer, counters: Arc::default() }
    }

    /// Bytes of all flows so far.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

impl TunDispatch for ThroughOutbound {
    fn needs_first_bytes(&self, _: SocketAddr, _: SocketAddr) -> bool {
        false
    }

    async fn connect(
        &self,
        _: SocketAddr,
        destination: SocketAddr,
        first_payload: Bytes,
    ) -> Result<Outlet, ConnectError> {
        let request = ConnectRequest { destination: Destination::from(destination), first_payload };
        let Connected { stream, .. } = self.outbound.connect(&self.dialer, request).await?;
        // These wait for the target's or the proxy's answer; other protocols give none.
        let target_reached = matches!(*self.outbound, Outbound::Direct | Outbound::Socks(_) | Outbound::Http(_));
        let observer = Box::new(Counting { counters: self.counters.clone() });
        Ok(Outlet { stream, target_reached, observer })
    }

    async fn associate(&self, _: SocketAddr, _: SocketAddr) -> Result<Associated, ConnectError> {
        self.outbound.associate(&self.dialer).await
    }
}

/// Counts a flow's bytes.
struct Counting {
    counters: Arc<Counters>,
}

impl FlowObserver for Counting {
    fn sent(&mut self, bytes: usize) {
        self.counters.add_up(bytes as u64);
    }

    fn received(&mut self, bytes: usize) {
        self.counters.add_down(bytes as u64);
    }

    fn poll_closed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
