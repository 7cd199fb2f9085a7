//! One UDP association: each datagram is decided by its own target, and leaves through an
//! association of the way that was chosen for it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use culvert_ipc::types::NodeId;
use culvert_net::datagram::{BoxDatagramFlow, Datagram};
use culvert_wire::address::Network;
use tokio::time::Instant;

use crate::flows::OpenFlow;
use crate::leave::Leave;
use crate::problem::of_connect;
use crate::router::{Choice, Router};

/// Datagrams taken in one go.
const BATCH: usize = 32;
/// Datagrams that wait for one way, and for the application; more are dropped, as UDP may.
const MAX_WAITING: usize = 256;
/// Ways of one association: directly, the node, and the node before it.
const MAX_LEGS: usize = 3;
/// An association that nothing passes through ends.
const IDLE: Duration = Duration::from_secs(300);
/// A way that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(2);

/// The way of some of the datagrams.
struct Leg {
    /// The node; none: directly.
    node: Option<NodeId>,
    state: LegState,
    waiting: VecDeque<Datagram>,
}

enum LegState {
    Open(BoxDatagramFlow),
    Failed(Instant),
}

struct Association<'a> {
    entry: &'a OpenFlow,
    router: &'a Router,
    inbound: &'a str,
    client: BoxDatagramFlow,
    legs: Vec<Leg>,
    /// From the application, before a way is chosen.
    incoming: VecDeque<Datagram>,
    /// For the application.
    outgoing: VecDeque<Datagram>,
    received: Vec<Datagram>,
}

enum Step {
    /// The first of `incoming` needs a way that is not open.
    Open(Choice),
    /// The application's side has ended.
    Ended,
}

/// Serves the association until the application's side ends or nothing passes for too long.
pub(crate) async fn serve(entry: &OpenFlow, router: &Router, inbound: &str, client: BoxDatagramFlow) {
    let mut association = Association {
        entry,
        router,
        inbound,
        client,
        legs: Vec::new(),
        incoming: VecDeque::new(),
        outgoing: VecDeque::new(),
        received: Vec::with_capacity(BATCH),
    };
    loop {
        let before = entry.counters().up() + entry.counters().down();
        match tokio::time::timeout(IDLE, poll_fn(|cx| association.poll(cx))).await {
            Ok(Step::Open(choice)) => association.open(choice).await,
            Ok(Step::Ended) => return,
            Err(_) if entry.counters().up() + entry.counters().down() == before => return,
            Err(_) => {}
        }
    }
}

impl Association<'_> {
    async fn open(&mut self, choice: Choice) {
        let node = choice.node.as_ref().map(|node| node.id);
        self.entry.decided(choice.rule, choice.node);
        let state = match &choice.leave {
            Some(leave) => associate(self.entry, leave).await,
            None => LegState::Failed(Instant::now()),
        };
        self.legs.retain(|leg| leg.node != node);
        if self.legs.len() >= MAX_LEGS {
            self.legs.remove(0);
        }
        self.legs.push(Leg { node, state, waiting: VecDeque::new() });
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            let mut moved = false;
            if self.incoming.is_empty() {
                match self.client.poll_receive(cx, &mut self.received, BATCH) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Step::Ended),
                    Poll::Ready(Ok(_)) => {
                        self.incoming.extend(self.received.drain(..));
                        moved = true;
                    }
                    Poll::Pending => {}
                }
            }
            if let Some(choice) = self.sort() {
                return Poll::Ready(Step::Open(choice));
            }
            moved |= self.poll_legs(cx);
            if !self.outgoing.is_empty() {
                let bytes = |queue: &VecDeque<Datagram>| queue.iter().map(|d| d.payload.len() as u64).sum::<u64>();
                let before = bytes(&self.outgoing);
                match self.client.poll_send(cx, &mut self.outgoing) {
                    Poll::Ready(Ok(_)) => {
                        self.entry.counters().add_down(before - bytes(&self.outgoing));
                        moved = true;
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(Step::Ended),
                    Poll::Pending => {}
                }
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    /// Gives the incoming datagrams to their legs; answers with the way that must be opened first.
    fn sort(&mut self) -> Option<Choice> {
        while let Some(datagram) = self.incoming.front() {
            let choice = self.router.choose(&datagram.peer, Network::Udp, self.inbound);
            let node = choice.node.as_ref().map(|node| node.id);
            let leg = self.legs.iter_mut().find(|leg| leg.node == node);
            let Some(leg) = leg else { return Some(choice) };
            match &leg.state {
                LegState::Open(_) => {
                    if let Some(datagram) = self.incoming.pop_front()
                        && leg.waiting.len() < MAX_WAITING
                    {
                        leg.waiting.push_back(datagram);
                    }
                }
                LegState::Failed(at) if at.elapsed() < RETRY => {
                    self.incoming.pop_front();
                }
                LegState::Failed(_) => return Some(choice),
            }
        }
        None
    }

    /// Sends and receives on all legs; true when anything moved.
    fn poll_legs(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        for leg in &mut self.legs {
            let LegState::Open(flow) = &mut leg.state else { continue };
            let sent = poll_leg_send(flow, cx, &mut leg.waiting, self.entry);
            let received = match flow.poll_receive(cx, &mut self.received, BATCH) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            };
            for result in [sent, received] {
                match result {
                    Poll::Ready(Ok(())) => moved = true,
                    Poll::Ready(Err(_)) => {
                        leg.state = LegState::Failed(Instant::now());
                        leg.waiting.clear();
                        break;
                    }
                    Poll::Pending => {}
                }
            }
            let room = MAX_WAITING.saturating_sub(self.outgoing.len());
            self.outgoing.extend(self.received.drain(..).take(room));
        }
        moved
    }
}

fn poll_leg_send(
    flow: &mut BoxDatagramFlow,
    cx: &mut Context<'_>,
    waiting: &mut VecDeque<Datagram>,
    entry: &OpenFlow,
) -> Poll<io::Result<()>> {
    if waiting.is_empty() {
        return Poll::Pending;
    }
    let bytes = |queue: &VecDeque<Datagram>| queue.iter().map(|d| d.payload.len() as u64).sum::<u64>();
    let before = bytes(waiting);
    let sent = flow.poll_send(cx, waiting);
    entry.counters().add_up(before - bytes(waiting));
    sent.map_ok(|_| ())
}

async fn associate(entry: &OpenFlow, leave: &Arc<dyn Leave>) -> LegState {
    match leave.associate().await {
        Ok(associated) => {
            entry.connected(&associated.trace);
            LegState::Open(associated.flow)
        }
        Err(error) => {
            entry.failed(of_connect(&error));
            LegState::Failed(Instant::now())
        }
    }
}
