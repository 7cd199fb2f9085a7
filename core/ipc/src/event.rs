//! Events: statements of what is, so that the newest of a kind can stand for all before it.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::types::{
    ConnectionRow, ConnectionStatus, DemoStatus, LogLine, NodeId, NodeRow, Settings, TestProgress, TestResult, Traffic,
};

/// What a subscriber may ask to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// Connection, settings, demo server.
    State,
    /// Rows of the node list.
    Nodes,
    /// Rates and totals once a second, while there is traffic.
    Traffic,
    /// Flows once a second, while they change.
    Connections,
    /// Tests of nodes.
    Tests,
    /// Lines of the log.
    Logs,
}

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", content = "data")]
#[expect(clippy::large_enum_variant, reason = "a few dozen lie in a queue; boxes would show in every match")]
pub enum Event {
    /// Events were lost since the reader was too slow: take a new snapshot.
    #[serde(rename = "state.resnapshot")]
    Resnapshot,
    /// The connection as it is now.
    #[serde(rename = "connection.status")]
    Connection(ConnectionStatus),
    /// The settings as they are now.
    #[serde(rename = "settings.changed")]
    Settings(Settings),
    /// The demo server as it is now.
    #[serde(rename = "demo.status")]
    Demo(DemoStatus),
    /// Rows that are new or changed, and rows that are gone.
    #[serde(rename = "nodes.changed")]
    Nodes(NodesDelta),
    /// Too many rows changed to list them: read the list again.
    #[serde(rename = "nodes.reload")]
    NodesReload,
    /// Rates and totals.
    #[serde(rename = "traffic.rates")]
    Traffic(Traffic),
    /// Flows that are new or changed.
    #[serde(rename = "connections.changed")]
    Connections(ConnectionsDelta),
    /// How far a run of tests is.
    #[serde(rename = "tests.progress")]
    TestProgress(TestProgress),
    /// Results of a run of tests.
    #[serde(rename = "tests.results")]
    TestResults(TestResults),
    /// Lines of the log.
    #[serde(rename = "logs.lines")]
    Logs(LogsDelta),
}

/// Changed rows of the node list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct NodesDelta {
    /// New or changed.
    pub changed: Vec<NodeRow>,
    /// Gone.
    pub removed: Vec<NodeId>,
}

/// Changed flows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct ConnectionsDelta {
    /// New, changed or ended.
    pub changed: Vec<ConnectionRow>,
    /// Open flows in all.
    pub open: u32,
}

/// Results that came in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
pub struct TestResults {
    /// The run.
    pub run: u32,
    /// Results.
    pub results: Vec<TestResult>,
}

/// Lines that came in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct LogsDelta {
    /// Lines.
    pub lines: Vec<LogLine>,
    /// Lines before these that were left out.
    pub dropped: u32,
}

/// An event with its number on this connection: each is one higher than the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
pub struct Numbered {
    /// Number.
    pub seq: u64,
    /// The event.
    pub event: Event,
}

/// The most rows of nodes in one queued event; above it the list is to be read again.
const MAX_NODE_ROWS: usize = 512;
/// The most flows in one queued event; the oldest go first.
const MAX_FLOW_ROWS: usize = 2_000;
/// The most results that wait for one reader; above it the reader takes a new snapshot.
pub(crate) const MAX_RESULTS: usize = 2_000;
/// The most lines of the log in one queued event; the oldest go first.
const MAX_LOG_LINES: usize = 500;

impl Event {
    /// The topic that it belongs to; none for what every subscriber must hear.
    pub fn topic(&self) -> Option<Topic> {
        match self {
            Self::Resnapshot => None,
            Self::Connection(_) | Self::Settings(_) | Self::Demo(_) => Some(Topic::State),
            Self::Nodes(_) | Self::NodesReload => Some(Topic::Nodes),
            Self::Traffic(_) => Some(Topic::Traffic),
            Self::Connections(_) => Some(Topic::Connections),
            Self::TestProgress(_) | Self::TestResults(_) => Some(Topic::Tests),
            Self::Logs(_) => Some(Topic::Logs),
        }
    }

    /// Results of tests in this event.
    pub(crate) fn results(&self) -> usize {
        if let Self::TestResults(batch) = self { batch.results.len() } else { 0 }
    }

    /// Lets this queued event stand for `newer` as well. Answers with `newer` when the two have
    /// nothing to do with each other.
    pub fn absorb(&mut self, newer: Event) -> Option<Event> {
        match (&mut *self, newer) {
            (Self::Resnapshot, Self::Resnapshot) | (Self::NodesReload, Self::Nodes(_) | Self::NodesReload) => None,
            (Self::Connection(old), Self::Connection(new)) => replace(old, new),
            (Self::Settings(old), Self::Settings(new)) => replace(old, new),
            (Self::Demo(old), Self::Demo(new)) => replace(old, new),
            (Self::Traffic(old), Self::Traffic(new)) => replace(old, new),
            (Self::TestProgress(old), Self::TestProgress(new)) if old.run == new.run => replace(old, new),
            (Self::Nodes(_), Self::NodesReload) => {
                *self = Self::NodesReload;
                None
            }
            (Self::Nodes(old), Self::Nodes(new)) => {
                if !old.join(new) {
                    *self = Self::NodesReload;
                }
                None
            }
            (Self::Connections(old), Self::Connections(new)) => {
                old.join(new);
                None
            }
            (Self::TestResults(old), Self::TestResults(new)) if old.run == new.run => {
                old.results.extend(new.results);
                None
            }
            (Self::Logs(old), Self::Logs(new)) => {
                old.join(new);
                None
            }
            (_, newer) => Some(newer),
        }
    }
}

fn replace<T>(old: &mut T, new: T) -> Option<Event> {
    *old = new;
    None
}

impl NodesDelta {
    /// Joins a newer change; false when the sum is too large to keep.
    fn join(&mut self, newer: Self) -> bool {
        for row in newer.changed {
            self.removed.retain(|id| *id != row.id);
            match self.changed.iter_mut().find(|old| old.id == row.id) {
                Some(old) => *old = row,
                None => self.changed.push(row),
            }
        }
        for id in newer.removed {
            self.changed.retain(|row| row.id != id);
            if !self.removed.contains(&id) {
                self.removed.push(id);
            }
        }
        self.changed.len() + self.removed.len() <= MAX_NODE_ROWS
    }
}

impl ConnectionsDelta {
    fn join(&mut self, newer: Self) {
        self.open = newer.open;
        let places: std::collections::HashMap<u64, usize> =
            self.changed.iter().enumerate().map(|(place, row)| (row.id, place)).collect();
        for row in newer.changed {
            match places.get(&row.id) {
                Some(&place) => self.changed[place] = row,
                None => self.changed.push(row),
            }
        }
        let excess = self.changed.len().saturating_sub(MAX_FLOW_ROWS);
        self.changed.drain(..excess);
    }
}

impl LogsDelta {
    fn join(&mut self, newer: Self) {
        if newer.dropped > 0 {
            self.dropped = self.dropped.saturating_add(newer.dropped);
        }
        self.lines.extend(newer.lines);
        let excess = self.lines.len().saturating_sub(MAX_LOG_LINES);
        self.lines.drain(..excess);
        self.dropped = self.dropped.saturating_add(u32::try_from(excess).unwrap_or(u32::MAX));
    }
}
