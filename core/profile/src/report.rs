//! A document as the JSON that `culvert-core parse --json` prints (`docs/node-format.md`).

use serde_json::{Map, Value, json};

use crate::document::{Document, Headers};
use crate::export;
use crate::node::Node;

/// The JSON of a document: `{format, nodes, skipped, …}`. It holds secrets, as the document did.
///
/// Exit status 0 belongs to a document with at least one node.
pub fn report(document: &Document) -> Value {
    let mut map = Map::new();
    map.insert("format".to_owned(), json!(document.format));
    map.insert("nodes".to_owned(), document.nodes.iter().map(node).collect());
    map.insert("skipped".to_owned(), json!(document.skipped));
    if document.skipped_more > 0 {
        map.insert("skipped_more".to_owned(), json!(document.skipped_more));
    }
    if document.headers != Headers::default() {
        map.insert("headers".to_owned(), json!(document.headers));
    }
    if let Some(message) = &document.message {
        map.insert("message".to_owned(), json!(message));
    }
    if let Some(url) = &document.subscription_url {
        map.insert("subscription_url".to_owned(), json!(url));
    }
    Value::Object(map)
}

/// One node with its `link`.
pub fn node(node: &Node) -> Value {
    let mut value = json!(node);
    if let Value::Object(map) = &mut value {
        map.insert("link".to_owned(), Value::String(export::link(node)));
    }
    value
}
