//! Session tickets in memory, for each server the newest few.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use culvert_wire::Destination;
use culvert_wire::tls::{SessionStore, Ticket};

/// Servers that are remembered.
const SERVERS: usize = 256;
/// Tickets of one server and name: as many as a few connections at once use up.
const TICKETS: usize = 8;
/// The largest ticket that is kept.
const TICKET_SIZE: usize = 8192;

#[derive(Default)]
struct Kept {
    tickets: HashMap<String, VecDeque<(Ticket, Instant)>>,
    order: VecDeque<String>,
}

/// Tickets of one process.
#[derive(Clone, Default)]
pub struct Sessions {
    server: String,
    kept: Arc<Mutex<Kept>>,
}

impl Sessions {
    /// The process's store, as seen by connections to `server`: two servers that share a name do
    /// not share tickets.
    pub fn shared(server: &Destination) -> Arc<dyn SessionStore> {
        static SHARED: OnceLock<Sessions> = OnceLock::new();
        let shared = SHARED.get_or_init(Self::default);
        Arc::new(Self { server: server.to_string(), kept: Arc::clone(&shared.kept) })
    }

    fn key(&self, name: &str) -> String {
        format!("{} {name}", self.server)
    }
}

impl SessionStore for Sessions {
    fn put(&self, server: &str, ticket: Ticket) {
        if ticket.size() > TICKET_SIZE {
            return;
        }
        let key = self.key(server);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.tickets.contains_key(&key) {
            kept.order.push_back(key.clone());
            if kept.order.len() > SERVERS
                && let Some(oldest) = kept.order.pop_front()
            {
                kept.tickets.remove(&oldest);
            }
        }
        let tickets = kept.tickets.entry(key).or_default();
        tickets.push_back((ticket, Instant::now()));
        if tickets.len() > TICKETS {
            tickets.pop_front();
        }
    }

    fn take(&self, server: &str) -> Option<(Ticket, u32)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let tickets = kept.tickets.get_mut(&self.key(server))?;
        while let Some((ticket, since)) = tickets.pop_back() {
            let age = since.elapsed();
            if age < Duration::from_secs(u64::from(ticket.lifetime_seconds())) {
                return Some((ticket, age.as_millis() as u32));
            }
        }
        None
    }
}
