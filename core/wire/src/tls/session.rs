//! Session tickets, kept by whoever runs the handshake.

use std::fmt;

use super::schedule::{Secret, Suite};

/// A ticket that a server gave for a later, shorter handshake. Used once.
pub struct Ticket {
    pub(crate) suite: Suite,
    pub(crate) secret: Secret,
    pub(crate) identity: Vec<u8>,
    pub(crate) lifetime_seconds: u32,
    pub(crate) age_add: u32,
}

impl Ticket {
    /// Seconds after which the server forgets it.
    pub fn lifetime_seconds(&self) -> u32 {
        self.lifetime_seconds
    }

    /// Bytes that keeping it takes, roughly.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.identity.len()
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("lifetime_seconds", &self.lifetime_seconds).finish_non_exhaustive()
    }
}

/// Keeps tickets by server name. Bounded by its implementation, which also knows the time.
pub trait SessionStore: Send + Sync {
    /// Keeps `ticket` for `server`, received now.
    fn put(&self, server: &str, ticket: Ticket);

    /// Takes out a ticket for `server` that has not run out, with its age in milliseconds.
    fn take(&self, server: &str) -> Option<(Ticket, u32)>;
}
