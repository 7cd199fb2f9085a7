//! Nodes, share links and subscriptions, both ways.

mod fields;
mod framing;
mod json;
mod judge;
mod query;
mod text;

pub mod error;
pub mod export;
pub mod link;
pub mod node;

pub use error::{ErrorKind, ParseError};
pub use link::parse_link;
pub use node::Node;
