//! The flows that are open or have just ended: who, where to, by which rule, how much, how long.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use culvert_ipc::types::{ConnectionRow, ConnectionTrace, NodeRef, PhaseTime, Problem};
use culvert_net::outbound::Trace;
use culvert_net::relay::Counters;
use culvert_wire::address::{Destination, Network};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::problem::phase_word;
use crate::store::now_ms;

/// Ended flows that are still shown.
const MAX_ENDED: usize = 500;
/// How long an ended flow is shown.
const SHOWN_AFTER_END: Duration = Duration::from_secs(10);
/// The most rows in one answer.
pub(crate) const MAX_ROWS: usize = 2_000;

/// A flow in the table.
#[derive(Debug)]
pub struct FlowEntry {
    id: u64,
    destination: Destination,
    network: Network,
    process: Option<String>,
    started: Instant,
    started_ms: u64,
    counters: Counters,
    close: Notify,
    closed: AtomicBool,
    /// Bytes that were last told to subscribers, to find out what changed.
    told: AtomicU64,
    story: Mutex<Story>,
}

#[derive(Debug, Default)]
struct Story {
    rule: String,
    node: Option<NodeRef>,
    phases: Vec<PhaseTime>,
    problem: Option<Problem>,
    ended: Option<(Instant, u64)>,
}

impl FlowEntry {
    /// Number of the flow.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The bytes of the flow; the relay adds to them as they pass.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Waits until someone asks to close the flow.
    pub async fn closed(&self) {
        let asked = self.close.notified();
        if !self.closed.load(Ordering::Acquire) {
            asked.await;
        }
    }

    /// Which rule decided, and for which node.
    pub fn decided(&self, rule: impl Into<String>, node: Option<NodeRef>) {
        let mut story = self.story.lock();
        story.rule = rule.into();
        story.node = node;
    }

    /// The way is open; `trace` tells how it came to be.
    pub fn connected(&self, trace: &Trace) {
        let before = trace.started.saturating_duration_since(self.started);
        self.story.lock().phases = trace
            .phases
            .iter()
            .map(|(phase, after)| PhaseTime { phase: phase_word(*phase).to_owned(), at_us: micros(before + *after) })
            .collect();
    }

    /// The first byte came back.
    pub fn first_byte(&self) {
        let at_us = micros(self.started.elapsed());
        self.story.lock().phases.push(PhaseTime { phase: "first_byte".to_owned(), at_us });
    }

    /// It failed.
    pub fn failed(&self, problem: Problem) {
        self.story.lock().problem = Some(problem);
    }

    fn bytes(&self) -> (u64, u64) {
        (self.counters.up(), self.counters.down())
    }

    fn row(&self) -> ConnectionRow {
        let story = self.story.lock();
        let (up_bytes, down_bytes) = self.bytes();
        ConnectionRow {
            id: self.id,
            destination: self.destination.to_string(),
            network: self.network.to_string(),
            inbound: "mixed".to_owned(),
            process: self.process.clone(),
            rule: story.rule.clone(),
            node: story.node.clone(),
            started_ms: self.started_ms,
            ended_ms: story.ended.map(|(_, ms)| ms),
            up_bytes,
            down_bytes,
            problem: story.problem.clone(),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// All flows.
#[derive(Debug, Default)]
pub struct FlowTable {
    next: AtomicU64,
    inner: Mutex<Inner>,
    /// Rung when a flow opens, for whoever measures rates only while there is something to measure.
    opened: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<u64, Arc<FlowEntry>>,
    ended: VecDeque<Arc<FlowEntry>>,
    ended_up: u64,
    ended_down: u64,
}

/// A flow that is open as long as this lives.
#[derive(Debug)]
pub struct OpenFlow {
    table: Arc<FlowTable>,
    entry: Arc<FlowEntry>,
}

impl std::ops::Deref for OpenFlow {
    type Target = Arc<FlowEntry>;

    fn deref(&self) -> &Self::Target {
        &self.entry
    }
}

impl Drop for OpenFlow {
    fn drop(&mut self) {
        self.table.end(&self.entry);
    }
}

impl FlowTable {
    /// Enters a flow to `destination`.
    pub fn open(self: &Arc<Self>, destination: Destination, network: Network, process: Option<String>) -> OpenFlow {
        let entry = Arc::new(FlowEntry {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            destination,
            network,
            process,
            started: Instant::now(),
            started_ms: now_ms(),
            counters: Counters::default(),
            close: Notify::new(),
            closed: AtomicBool::new(false),
            told: AtomicU64::new(u64::MAX),
            story: Mutex::default(),
        });
        self.inner.lock().open.insert(entry.id, Arc::clone(&entry));
        self.opened.notify_waiters();
        OpenFlow { table: Arc::clone(self), entry }
    }

    fn end(&self, entry: &Arc<FlowEntry>) {
        entry.story.lock().ended = Some((Instant::now(), now_ms()));
        let (up, down) = entry.bytes();
        let mut inner = self.inner.lock();
        inner.open.remove(&entry.id);
        inner.ended_up += up;
        inner.ended_down += down;
        if inner.ended.len() >= MAX_ENDED {
            inner.ended.pop_front();
        }
        inner.ended.push_back(Arc::clone(entry));
    }

    /// Waits for a flow to open. Create the future before looking at [`FlowTable::totals`].
    pub fn next_opened(&self) -> tokio::sync::futures::Notified<'_> {
        self.opened.notified()
    }

    /// Bytes up and down since the start, and how many flows are open.
    pub fn totals(&self) -> (u64, u64, u32) {
        let inner = self.inner.lock();
        let (mut up, mut down) = (inner.ended_up, inner.ended_down);
        for entry in inner.open.values() {
            let (entry_up, entry_down) = entry.bytes();
            up += entry_up;
            down += entry_down;
        }
        (up, down, u32::try_from(inner.open.len()).unwrap_or(u32::MAX))
    }

    /// Rows, newest first, and how many flows are open in all.
    pub fn rows(&self, ended: bool) -> (u32, Vec<ConnectionRow>) {
        let inner = self.inner.lock();
        let mut entries: Vec<&Arc<FlowEntry>> = inner.open.values().collect();
        if ended {
            entries.extend(inner.ended.iter().filter(|entry| is_shown(entry)));
        }
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.id));
        entries.truncate(MAX_ROWS);
        let open = u32::try_from(inner.open.len()).unwrap_or(u32::MAX);
        (open, entries.into_iter().map(|entry| entry.row()).collect())
    }

    /// Rows that changed since the last call.
    pub fn changed_rows(&self) -> (u32, Vec<ConnectionRow>) {
        let inner = self.inner.lock();
        let mut rows = Vec::new();
        for entry in inner.open.values().chain(inner.ended.iter().filter(|entry| is_shown(entry))) {
            if rows.len() >= MAX_ROWS {
                break;
            }
            let (up, down) = entry.bytes();
            let over = u64::from(entry.story.lock().ended.is_some());
            // One number that moves with every change that a row shows.
            let mark = ((up.wrapping_mul(31).wrapping_add(down)) << 1 | over) & (u64::MAX >> 1);
            if entry.told.swap(mark, Ordering::Relaxed) != mark {
                rows.push(entry.row());
            }
        }
        (u32::try_from(inner.open.len()).unwrap_or(u32::MAX), rows)
    }

    /// Asks flows to close: these, or all. Answers with how many were open.
    pub fn close(&self, ids: Option<&[u64]>) -> u32 {
        let inner = self.inner.lock();
        let mut count = 0;
        let mut close = |entry: &Arc<FlowEntry>| {
            entry.closed.store(true, Ordering::Release);
            entry.close.notify_waiters();
            count += 1;
        };
        match ids {
            Some(ids) => ids.iter().filter_map(|id| inner.open.get(id)).for_each(&mut close),
            None => inner.open.values().for_each(&mut close),
        }
        count
    }

    /// How a flow came to be; none when it is not known (any more).
    pub fn trace(&self, id: u64) -> Option<ConnectionTrace> {
        let inner = self.inner.lock();
        let entry = inner.open.get(&id).or_else(|| inner.ended.iter().find(|entry| entry.id == id))?;
        let phases = entry.story.lock().phases.clone();
        Some(ConnectionTrace { row: entry.row(), phases })
    }
}

fn is_shown(entry: &FlowEntry) -> bool {
    entry.story.lock().ended.is_none_or(|(at, _)| at.elapsed() < SHOWN_AFTER_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> Destination {
        Destination::from(std::net::SocketAddr::from(([192, 0, 2, 1], port)))
    }

    #[tokio::test]
    async fn bytes_are_counted_live_and_after_the_end() {
        let table = Arc::new(FlowTable::default());
        let flow = table.open(to(1), Network::Tcp, None);
        flow.counters().add_up(3);
        flow.counters().add_down(5);
        assert_eq!(table.totals(), (3, 5, 1));
        assert_eq!(table.changed_rows().1.len(), 1);
        assert_eq!(table.changed_rows().1.len(), 0);
        flow.counters().add_down(1);
        assert_eq!(table.changed_rows().1[0].down_bytes, 6);
        drop(flow);
        assert_eq!(table.totals(), (3, 6, 0));
        assert!(table.changed_rows().1[0].ended_ms.is_some());
        assert_eq!(table.rows(true).1.len(), 1);
        assert_eq!(table.rows(false).1.len(), 0);
    }

    #[tokio::test]
    async fn closing_reaches_the_flow_even_before_it_waits() {
        let table = Arc::new(FlowTable::default());
        let one = table.open(to(1), Network::Tcp, None);
        let two = table.open(to(2), Network::Tcp, None);
        assert_eq!(table.close(Some(&[one.id(), 99])), 1);
        one.closed().await;
        let waiting = tokio::spawn({
            let entry = Arc::clone(&two);
            async move { entry.closed().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(table.close(None), 2);
        waiting.await.unwrap();
    }
}
