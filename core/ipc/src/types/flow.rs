//! Flows and traffic.

use crate::types::{NodeRef, Problem, wire};

wire! {
    /// Rates and totals.
    #[derive(Copy, Default)]
    pub struct Traffic {
        /// When measured.
        pub at_ms: u64,
        /// Bytes per second up, over the last second.
        pub up_bytes_per_s: f64,
        /// Bytes per second down, over the last second.
        pub down_bytes_per_s: f64,
        /// Bytes up since the core started.
        pub up_bytes: u64,
        /// Bytes down since the core started.
        pub down_bytes: u64,
        /// Flows that are open.
        pub open: u32,
    }

    /// One flow.
    #[derive(Eq)]
    pub struct ConnectionRow {
        /// Number, counted from the core's start.
        pub id: u64,
        /// Target.
        pub destination: String,
        /// tcp or udp.
        pub network: String,
        /// Where it came in: mixed.
        pub inbound: String,
        /// The program that opened it, when known.
        pub process: Option<String>,
        /// The rule that decided.
        pub rule: String,
        /// The node; absent when it goes out directly or is blocked.
        pub node: Option<NodeRef>,
        /// When it began.
        pub started_ms: u64,
        /// When it ended.
        pub ended_ms: Option<u64>,
        /// Bytes up.
        pub up_bytes: u64,
        /// Bytes down.
        pub down_bytes: u64,
        /// Why it failed, when it did.
        pub problem: Option<Problem>,
    }

    /// Which flows.
    #[derive(Copy, Default, Eq)]
    pub struct ConnectionsListParams {
        /// The ended ones of the last seconds too.
        #[serde(default)]
        pub ended: bool,
    }

    /// Flows, newest first, at most 2,000.
    #[derive(Eq)]
    pub struct ConnectionsPage {
        /// Open flows in all.
        pub open: u32,
        /// Rows.
        pub rows: Vec<ConnectionRow>,
    }

    /// Flows to close.
    #[derive(Eq)]
    pub struct ConnectionsCloseParams {
        /// Numbers; absent for all.
        #[serde(default)]
        #[ts(optional)]
        pub ids: Option<Vec<u64>>,
    }

    /// How many were closed.
    #[derive(Copy, Eq)]
    pub struct ConnectionsClosed {
        /// Count.
        pub count: u32,
    }

    /// One flow.
    #[derive(Copy, Eq)]
    pub struct ConnectionParams {
        /// Number.
        pub id: u64,
    }

    /// When a phase ended.
    #[derive(Eq)]
    pub struct PhaseTime {
        /// resolve, dial, security, transport, protocol, first_byte.
        pub phase: String,
        /// Microseconds since the flow began.
        pub at_us: u64,
    }

    /// A flow and how it came to be.
    #[derive(Eq)]
    pub struct ConnectionTrace {
        /// Its row.
        pub row: ConnectionRow,
        /// Phases in order.
        pub phases: Vec<PhaseTime>,
    }
}
