//! Nodes, share links and subscriptions, both ways.

mod fields;
mod framing;
mod json;
mod judge;
mod query;
mod redact;
mod report;
mod text;
mod yaml;

pub mod deeplink;
pub mod document;
pub mod error;
pub mod export;
pub mod identity;
pub mod link;
pub mod node;
pub mod qr;
pub mod update;

pub use document::{Document, Format, Skipped, parse_document};
pub use error::{ErrorKind, ParseError};
pub use link::parse_link;
pub use node::Node;
pub use redact::redact;
pub use report::{node as report_node, report};
