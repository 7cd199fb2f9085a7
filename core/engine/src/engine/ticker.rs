//! Rates and changed flows, once a second, only while someone looks and something flows.

use std::sync::{Arc, Weak};
use std::time::Duration;

use culvert_ipc::event::ConnectionsDelta;
use culvert_ipc::types::Traffic;
use culvert_ipc::{Event, Publisher, Topic};

use super::Engine;
use crate::flows::FlowTable;
use crate::store::now_ms;

const PERIOD: Duration = Duration::from_secs(1);

/// Runs until the engine is gone.
pub(super) async fn run(engine: Weak<Engine>, publisher: Publisher, flows: Arc<FlowTable>) {
    loop {
        let looked = publisher.changed();
        let wanted = publisher.wanted(Topic::Traffic) || publisher.wanted(Topic::Connections);
        if !wanted {
            looked.await;
            continue;
        }
        let opened = flows.next_opened();
        let (up, down, open) = flows.totals();
        if open == 0 {
            opened.await;
        }
        tick_while_busy(&publisher, &flows, (up, down)).await;
        if engine.strong_count() == 0 {
            return;
        }
    }
}

/// Ticks until nothing is open or nobody looks; the last tick says zero.
async fn tick_while_busy(publisher: &Publisher, flows: &FlowTable, mut last: (u64, u64)) {
    let mut interval = tokio::time::interval(PERIOD);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval.tick().await;
    let mut measured = tokio::time::Instant::now();
    let mut quiet = false;
    loop {
        interval.tick().await;
        let now = tokio::time::Instant::now();
        let seconds = now.duration_since(measured).as_secs_f64().max(0.001);
        measured = now;
        let (up_bytes, down_bytes, open) = flows.totals();
        let (up, down) = (up_bytes.saturating_sub(last.0), down_bytes.saturating_sub(last.1));
        last = (up_bytes, down_bytes);
        let still = up == 0 && down == 0;
        // A second quiet tick in a row says nothing new.
        if !(still && quiet) {
            publisher.publish(&Event::Traffic(Traffic {
                at_ms: now_ms(),
                up_bytes_per_s: up as f64 / seconds,
                down_bytes_per_s: down as f64 / seconds,
                up_bytes,
                down_bytes,
                open,
            }));
        }
        if publisher.wanted(Topic::Connections) {
            let (open, changed) = flows.changed_rows();
            if !changed.is_empty() {
                publisher.publish(&Event::Connections(ConnectionsDelta { changed, open }));
            }
        }
        quiet = still;
        let wanted = publisher.wanted(Topic::Traffic) || publisher.wanted(Topic::Connections);
        if !wanted || (open == 0 && still) {
            return;
        }
    }
}
