//! Nodes, share links and subscriptions, both ways.

pub mod error;
pub mod node;

pub use error::{ErrorKind, ParseError};
pub use node::Node;
