//! What makes a node the same node, whatever it is called.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::node::Node;

/// A hash over the fields of a node that matter for the connection, in 32 hex digits. Equal for
/// nodes that differ in their name only, stable across versions and updates.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Identity(String);

impl Identity {
    /// The hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Unknown parameters that change the connection all the same.
const RELEVANT: &[&str] = &["fm", "vcn"];

impl Node {
    /// The node's identity.
    pub fn identity(&self) -> Identity {
        let mut map = match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            Ok(_) | Err(_) => Map::new(),
        };
        for key in ["name", "extra", "unsupported", "unsupported_kind", "uuid_raw"] {
            map.remove(key);
        }
        normalize(&mut map);
        // Of a node that can't be used nobody knows which parameters matter: all of them.
        let mut extra: Vec<(&String, &String)> = self
            .extra
            .iter()
            .filter(|(key, _)| self.unsupported.is_some() || RELEVANT.contains(&key.as_str()))
            .collect();
        extra.sort();
        let mut text = String::with_capacity(512);
        canonical(&Value::Object(map), &mut text);
        for (key, value) in extra {
            text.push('\n');
            text.push_str(key);
            text.push('=');
            text.push_str(value);
        }
        let digest = Sha256::digest(text.as_bytes());
        Identity(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Drops what says the same as its absence.
fn normalize(map: &mut Map<String, Value>) {
    if let Some(Value::Object(transport)) = map.get_mut("transport") {
        let defaults =
            [("header_type", "none"), ("mode", "gun"), ("mode", "auto"), ("path", "/"), ("service_name", "")];
        for (key, default) in defaults {
            if transport.get(key).and_then(Value::as_str) == Some(default) {
                transport.remove(key);
            }
        }
    }
}

/// JSON with sorted keys.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in pairs {
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_link;

    #[test]
    fn a_name_does_not_matter_and_a_password_does() {
        let identity = |link: &str| parse_link(link).unwrap().identity();
        let first = identity("trojan://a@example.com:443?type=tcp&headerType=none#One");
        assert_eq!(first, identity("trojan://a@EXAMPLE.com:443?foo=bar#Two"));
        assert_ne!(first, identity("trojan://b@example.com:443#One"));
        // Stored by the core: a change of this value loses people's favourites.
        assert_eq!(first.as_str().len(), 32);
    }
}
