//! The way that new flows take, switched while flows run.

use std::sync::Arc;

use culvert_ipc::types::{Mode, NodeRef};
use culvert_net::random::SystemRandom;
use culvert_wire::address::{Destination, Network};
use culvert_wire::random::Random;
use parking_lot::RwLock;

use crate::leave::{Leave, Way};
use crate::rules::{Decision, Rules};

/// What was chosen for a flow.
#[derive(Clone)]
pub struct Choice {
    /// The rule that decided.
    pub rule: &'static str,
    /// The node; none when the flow goes out directly.
    pub node: Option<NodeRef>,
    /// The way; none when the flow is blocked, or a node is needed and there is none.
    pub leave: Option<Arc<dyn Leave>>,
}

/// Chooses the way of each new flow. Flows that are open keep theirs when the node changes.
pub struct Router {
    direct: Arc<dyn Leave>,
    rules: Rules,
    current: RwLock<Current>,
}

struct Current {
    mode: Mode,
    way: Option<Way>,
}

impl Router {
    /// A router that has no node yet.
    pub fn new(direct: Arc<dyn Leave>, mode: Mode) -> Self {
        let seed = u64::from_ne_bytes(SystemRandom.array());
        Self { direct, rules: Rules::built_in(seed), current: RwLock::new(Current { mode, way: None }) }
    }

    /// Sends new flows through `way`.
    pub fn set_way(&self, way: Option<Way>) {
        self.current.write().way = way;
    }

    /// The way of new flows that need the node.
    pub fn way(&self) -> Option<Way> {
        self.current.read().way.clone()
    }

    /// Decides by `mode` from now on.
    pub fn set_mode(&self, mode: Mode) {
        self.current.write().mode = mode;
    }

    /// The way for a flow to `destination` that came in by `inbound`.
    pub fn choose(&self, destination: &Destination, network: Network, inbound: &str) -> Choice {
        let current = self.current.read();
        match self.rules.decide(current.mode, destination, network, inbound) {
            Decision::Direct { rule } => Choice { rule, node: None, leave: Some(Arc::clone(&self.direct)) },
            Decision::Block { rule } => Choice { rule, node: None, leave: None },
            Decision::Node { rule } => Choice {
                rule,
                node: current.way.as_ref().and_then(|way| way.node.clone()),
                leave: current.way.as_ref().map(|way| Arc::clone(&way.leave)),
            },
        }
    }
}
