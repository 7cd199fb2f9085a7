//! What the page hears without asking.

use culvert_ipc::types::Snapshot;
use culvert_ipc::{Event, RpcError};
use serde::Serialize;

/// One message to the page; `ui/src/lib/ipc/transport.ts` has the same type.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Incoming {
    /// The core is there, and this is its state.
    Attached {
        /// The state but for lists.
        snapshot: Box<Snapshot>,
    },
    /// Something changed.
    Event {
        /// What.
        event: Box<Event>,
    },
    /// The core is gone; the shell tries to bring it back.
    Detached {
        /// Why, in English, for the log.
        reason: String,
    },
    /// A link came from outside: a deep link or the command line.
    Import {
        /// The link.
        text: String,
    },
    /// Something that was chosen in the tray was refused.
    Refused {
        /// Why.
        error: RpcError,
    },
}
