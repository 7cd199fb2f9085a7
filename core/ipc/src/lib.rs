//! Methods, events, errors, client and server of the local socket between the app and the core.
//!
//! JSON-RPC 2.0 in lines of at most [`frame::MAX_FRAME_BYTES`], over a Unix socket with mode 0600
//! whose peer is checked (Windows: a named pipe that only its owner may open). The list in
//! [`methods`] is the whole interface: the core implements [`Core`], generated from it, and the
//! app's TypeScript is generated from the same types ([`bindings`]).

pub mod bindings;
pub mod client;
pub mod error;
pub mod event;
pub mod frame;
pub mod message;
pub mod methods;
pub mod outbox;
pub mod server;
pub mod socket;
pub mod types;

pub use client::{Client, ClientError};
pub use error::{ErrorCode, RpcError};
pub use event::{Event, Numbered, Topic};
pub use methods::{Core, Method};
pub use outbox::{Outbox, Publisher};

/// The version of this interface. Raised when a method or event changes in a way that an older
/// peer can't follow; adding a method, an event or an optional field doesn't raise it.
pub const PROTOCOL_VERSION: u32 = 1;
