//! A TLS 1.3 client that wears a browser's ClientHello.
//!
//! No I/O: [`Handshake`] takes received bytes and gives bytes to send; what it ends with are a
//! [`RecordSeal`] and a [`RecordOpen`] that work in place ([`crate::chunk`]), one record at a time,
//! so that a protocol above (Vision) can stop between two records. TLS 1.2 is offered as browsers
//! offer it, but a server that chooses it is refused with the reason.

mod accept;
mod certificate;
mod client;
pub(crate) mod codec;
mod error;
pub(crate) mod exchange;
mod fingerprint;
mod hello;
pub(crate) mod record;
pub(crate) mod schedule;
mod session;
mod verify;

pub use accept::{ClientHello, ServerHandshake};
pub use client::{ClientConfig, Established, Handshake, Progress};
pub use error::{TlsError, describe_alert};
pub use exchange::{P256, P384, P521, Share, X25519, X25519_MLKEM768};
pub use fingerprint::Browser;
pub use record::{HEADER, MAX_PLAINTEXT, MAX_RECORD, RecordOpen, RecordSeal};
pub use schedule::Suite;
pub use session::{SessionStore, Ticket};
pub use verify::{CertificateError, Evidence, ServerAuth};

#[cfg(test)]
mod tests;
