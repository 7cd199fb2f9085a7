//! The newest lines of the log, in memory, for `logs.tail` and the app's page.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use culvert_ipc::event::LogsDelta;
use culvert_ipc::types::LogLine;
use culvert_ipc::{Event, Publisher, Topic};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::store::now_ms;

/// Lines that are kept.
const KEPT: usize = 2_000;
/// The longest text of a line, in bytes.
const MAX_MESSAGE: usize = 1_024;

/// The newest lines. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct LogBuffer {
    lines: Arc<Mutex<VecDeque<LogLine>>>,
    publisher: Publisher,
}

impl LogBuffer {
    /// A buffer that hands new lines to `publisher`'s subscribers.
    pub fn new(publisher: Publisher) -> Self {
        Self { lines: Arc::default(), publisher }
    }

    /// The newest `count` lines, oldest first.
    pub fn tail(&self, count: usize) -> Vec<LogLine> {
        let lines = self.lines.lock();
        lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
    }

    fn push(&self, line: LogLine) {
        if self.publisher.wanted(Topic::Logs) {
            self.publisher.publish(&Event::Logs(LogsDelta { lines: vec![line.clone()], dropped: 0 }));
        }
        let mut lines = self.lines.lock();
        if lines.len() >= KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

impl<S: tracing::Subscriber> Layer<S> for LogBuffer {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let mut message = text.message;
        message.push_str(&text.fields);
        if message.len() > MAX_MESSAGE {
            let end = (0..=MAX_MESSAGE).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
            message.truncate(end);
        }
        self.push(LogLine {
            at_ms: now_ms(),
            level: event.metadata().level().as_str().to_ascii_lowercase(),
            target: event.metadata().target().split("::").next().unwrap_or_default().to_owned(),
            message,
        });
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn the_newest_lines_are_kept() {
        let buffer = LogBuffer::default();
        let subscriber = tracing_subscriber::registry().with(buffer.clone());
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..KEPT + 10 {
                tracing::info!(number, "line");
            }
        });
        let tail = buffer.tail(usize::MAX);
        assert_eq!(tail.len(), KEPT);
        assert_eq!(tail.last().unwrap().message, format!("line number={}", KEPT + 9));
        assert_eq!(buffer.tail(1).len(), 1);
    }
}
