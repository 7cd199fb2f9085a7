//! Nodes, share links and subscriptions, both ways.

pub mod node;

pub use node::Node;
