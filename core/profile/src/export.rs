//! Nodes written out again: links, a base64 subscription, sing-box JSON, Clash YAML.
//!
//! Exports hold secrets by their nature; they are made on a person's request only.

mod clash;
mod entry;
mod link;
mod singbox;
mod vmess;
mod yaml;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use clash::clash;
pub use link::link;
pub use singbox::sing_box;

use crate::node::Node;

/// An export, and the nodes that its format can't express.
#[derive(Debug, Clone, PartialEq)]
pub struct Export<T> {
    /// What was written.
    pub content: T,
    /// Index into the list of nodes, and the reason in words.
    pub left_out: Vec<(usize, String)>,
}

/// One link a line.
pub fn links<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let mut text = String::new();
    for node in nodes {
        text.push_str(&link(node));
        text.push('\n');
    }
    text
}

/// A subscription as most panels serve it: links in base64.
pub fn base64_subscription<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    STANDARD.encode(links(nodes))
}

/// Parameters that came from another format and mean nothing in links start with its name.
const FOREIGN: &[&str] = &["clash:", "sing-box:", "xray:"];

/// Whether the key of an `extra` parameter belongs to another format than links.
fn is_foreign(key: &str) -> bool {
    FOREIGN.iter().any(|prefix| key.starts_with(prefix))
}
