//! Tests of nodes.

use crate::types::{NodeId, PhaseTime, Problem, wire};

wire! {
    /// What to measure.
    #[derive(Copy, Eq, Hash)]
    #[serde(rename_all = "snake_case")]
    pub enum TestKind {
        /// Phases of one connection, then the warm round trip.
        Latency,
        /// Download for a few seconds.
        Speed,
    }

    /// Which nodes, and what.
    #[derive(Eq)]
    pub struct TestsStartParams {
        /// What to measure.
        pub kind: TestKind,
        /// Numbers; absent for all nodes that can be used.
        #[serde(default)]
        #[ts(optional)]
        pub nodes: Option<Vec<NodeId>>,
    }

    /// A run of tests.
    #[derive(Copy, Eq)]
    pub struct TestRun {
        /// Number.
        pub run: u32,
        /// Nodes in it.
        pub total: u32,
    }

    /// Which run.
    #[derive(Copy, Eq)]
    pub struct TestsCancelParams {
        /// Number.
        pub run: u32,
    }

    /// How far a run is.
    #[derive(Copy, Eq)]
    pub struct TestProgress {
        /// Number.
        pub run: u32,
        /// What is measured.
        pub kind: TestKind,
        /// Nodes in it.
        pub total: u32,
        /// Nodes that are done.
        pub done: u32,
        /// Nodes that work.
        pub working: u32,
        /// Whether the run has ended (done or cancelled).
        pub ended: bool,
        /// Whether it was cancelled.
        pub cancelled: bool,
    }

    /// A node's result.
    pub struct TestResult {
        /// Node.
        pub node: NodeId,
        /// When it ended.
        pub at_ms: u64,
        /// The measurement.
        pub outcome: TestOutcome,
    }

    /// A measurement, or why there is none.
    #[serde(tag = "type", rename_all = "snake_case")]
    pub enum TestOutcome {
        /// Latency.
        Latency(LatencyOutcome),
        /// Speed.
        Speed(SpeedOutcome),
        /// It failed.
        Failed(FailedOutcome),
    }

    /// Latency through the node.
    pub struct LatencyOutcome {
        /// Phases of the first request, each with its own end.
        pub phases: Vec<PhaseTime>,
        /// Median of the warm round trips, ms.
        pub median_ms: f64,
        /// The warm round trips, ms, in the order measured.
        pub samples_ms: Vec<f64>,
        /// Mean difference of neighbouring round trips, ms.
        pub jitter_ms: f64,
        /// HTTP status of the page.
        pub status: u16,
    }

    /// Download through the node.
    pub struct SpeedOutcome {
        /// Average after the ramp-up, bytes per second.
        pub down_bytes_per_s: f64,
        /// Bytes that were used.
        pub bytes: u64,
        /// How long it took, ms.
        pub duration_ms: u64,
    }

    /// A test that failed.
    #[derive(Eq)]
    pub struct FailedOutcome {
        /// What was measured.
        pub kind: TestKind,
        /// Phases that were passed.
        pub phases: Vec<PhaseTime>,
        /// Why.
        pub problem: Problem,
    }
}
