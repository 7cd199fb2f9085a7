//! Who hears of what: one bounded queue a subscriber, where newer events join older ones of
//! their kind, so that a reader that stops costs a constant.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::event::{Event, MAX_RESULTS, Numbered, Topic};

/// The most events of different kinds that wait for one reader.
const MAX_QUEUED: usize = 64;

/// The queue of one subscriber.
#[derive(Debug)]
pub struct Outbox {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug)]
struct Queue {
    topics: Vec<Topic>,
    events: VecDeque<Event>,
    last_seq: u64,
    closed: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to hear of `topics` (and of no others any more). Answers with the number of the
    /// last event that was taken.
    pub fn set_topics(&self, topics: Vec<Topic>) -> u64 {
        let mut queue = self.lock();
        queue.topics = topics;
        let Queue { topics, events, .. } = &mut *queue;
        events.retain(|event| event.topic().is_some_and(|topic| topics.contains(&topic)));
        queue.last_seq
    }

    fn hears(&self, topic: Topic) -> bool {
        self.lock().topics.contains(&topic)
    }

    fn push(&self, event: Event) {
        let mut queue = self.lock();
        if queue.closed || event.topic().is_some_and(|topic| !queue.topics.contains(&topic)) {
            return;
        }
        let mut waiting = Some(event);
        for queued in &mut queue.events {
            match waiting.take() {
                Some(newer) => waiting = queued.absorb(newer),
                None => break,
            }
        }
        if let Some(event) = waiting {
            if queue.events.len() >= MAX_QUEUED {
                queue.events.clear();
                queue.events.push_back(Event::Resnapshot);
            } else {
                queue.events.push_back(event);
            }
        }
        // Runs of tests have an event each; their results count together.
        if queue.events.iter().map(Event::results).sum::<usize>() > MAX_RESULTS {
            queue.events.clear();
            queue.events.push_back(Event::Resnapshot);
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Waits for the next event; none after [`Outbox::close`].
    pub async fn next(&self) -> Option<Numbered> {
        loop {
            {
                let mut queue = self.lock();
                if queue.closed {
                    return None;
                }
                if let Some(event) = queue.events.pop_front() {
                    queue.last_seq += 1;
                    return Some(Numbered { seq: queue.last_seq, event });
                }
            }
            self.filled.notified().await;
        }
    }

    /// Ends the subscription.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}

/// Hands events to all subscribers.
#[derive(Debug, Default, Clone)]
pub struct Publisher {
    subscribers: Arc<Mutex<Vec<Weak<Outbox>>>>,
    joined: Arc<Notify>,
}

impl Publisher {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Outbox>>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new subscriber that hears of nothing yet. It is forgotten when dropped.
    pub fn subscribe(&self) -> Arc<Outbox> {
        let outbox = Arc::new(Outbox {
            queue: Mutex::new(Queue { topics: Vec::new(), events: VecDeque::new(), last_seq: 0, closed: false }),
            filled: Notify::new(),
        });
        self.lock().push(Arc::downgrade(&outbox));
        outbox
    }

    /// Tells whoever waits in [`Publisher::changed`] that a subscriber chose other topics.
    pub fn topics_changed(&self) {
        self.joined.notify_waiters();
    }

    /// Waits until a subscriber chooses topics. Check [`Publisher::wanted`] after creating the
    /// future and before awaiting it.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.joined.notified()
    }

    /// Whether anyone hears of `topic`; what costs work is not made for nobody.
    pub fn wanted(&self, topic: Topic) -> bool {
        self.lock().iter().filter_map(Weak::upgrade).any(|outbox| outbox.hears(topic))
    }

    /// Hands `event` to all who hear of its topic. Never waits.
    pub fn publish(&self, event: &Event) {
        let subscribers: Vec<Arc<Outbox>> = {
            let mut all = self.lock();
            all.retain(|outbox| outbox.strong_count() > 0);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        for outbox in subscribers {
            outbox.push(event.clone());
        }
    }
}

#[cfg(test)]
mod tests;
