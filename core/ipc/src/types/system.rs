//! The core itself: versions, snapshot, logs, demo server, checks.

use crate::event::Topic;
use crate::types::{ConnectionStatus, Settings, TestProgress, Traffic, wire};

wire! {
    /// Who calls.
    #[derive(Eq)]
    pub struct HelloParams {
        /// The caller's version of the interface.
        pub protocol_version: u32,
        /// Name and version of the caller, for the log.
        pub client: String,
    }

    /// Who answers.
    #[derive(Eq)]
    pub struct Hello {
        /// The core's version of the interface.
        pub protocol_version: u32,
        /// Version of the core.
        pub core_version: String,
        /// Process id of the core.
        pub pid: u32,
        /// The same versions on both sides. When false, ask the core to drain
        /// (`system.shutdown`) and start the one that belongs to the app.
        pub compatible: bool,
    }

    /// What a person should know of the store.
    #[derive(Eq, Default)]
    pub struct StoreStatus {
        /// Where the key of the secrets lies: keyring, file, or absent while it is missing.
        pub key_place: Option<String>,
        /// Why the secrets can't be opened.
        pub locked: Option<String>,
    }

    /// The demo server.
    #[derive(Eq, Default)]
    pub struct DemoStatus {
        /// Whether it runs.
        pub running: bool,
        /// Its share links (they open nothing but this computer's demo server).
        pub links: Vec<String>,
    }

    /// The whole state but for lists, which come in pages.
    pub struct Snapshot {
        /// Version of the core.
        pub core_version: String,
        /// The connection.
        pub connection: ConnectionStatus,
        /// Settings.
        pub settings: Settings,
        /// Traffic.
        pub traffic: Traffic,
        /// Nodes in the list.
        pub nodes: u32,
        /// Runs of tests under way.
        pub tests: Vec<TestProgress>,
        /// The store.
        pub store: StoreStatus,
        /// The demo server.
        pub demo: DemoStatus,
    }

    /// Topics to hear of.
    #[derive(Eq)]
    pub struct SubscribeParams {
        /// Topics; replaces the ones of an earlier call on the same connection.
        pub topics: Vec<Topic>,
    }

    /// The state at the beginning of the subscription.
    pub struct Subscribed {
        /// Number of the last event before this snapshot; the next one is one higher. Events
        /// state what is, so that one which the snapshot already holds does no harm.
        pub seq: u64,
        /// The state.
        pub snapshot: Snapshot,
    }

    /// How many lines.
    #[derive(Copy, Eq)]
    pub struct LogsTailParams {
        /// Lines, at most 2,000.
        pub lines: u32,
    }

    /// One line of the log, without secrets.
    #[derive(Eq)]
    pub struct LogLine {
        /// When.
        pub at_ms: u64,
        /// error, warn, info, debug.
        pub level: String,
        /// Part of the core.
        pub target: String,
        /// Text.
        pub message: String,
    }

    /// The newest lines, oldest first.
    #[derive(Eq)]
    pub struct LogLines {
        /// Lines.
        pub lines: Vec<LogLine>,
    }

    /// Outcome of a check.
    #[derive(Copy, Eq)]
    #[serde(rename_all = "snake_case")]
    pub enum CheckState {
        /// As it should be.
        Ok,
        /// Works, but worth knowing.
        Notice,
        /// Wrong.
        Wrong,
    }

    /// One thing that was checked.
    #[derive(Eq)]
    pub struct Check {
        /// Stable name: data_folder, secrets, system_proxy, mixed_port, clock, …
        pub code: String,
        /// Outcome.
        pub state: CheckState,
        /// What was found, and what to do.
        pub message: String,
    }

    /// All checks.
    #[derive(Eq)]
    pub struct Checks {
        /// In order.
        pub checks: Vec<Check>,
    }
}
