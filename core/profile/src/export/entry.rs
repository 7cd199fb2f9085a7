//! Small pieces for building entries of other programs' formats.

use serde_json::{Map, Value};

use crate::node::{Node, Secret};

/// An object that is built field by field; absent values are left out.
#[derive(Default)]
pub(super) struct Entry(pub(super) Map<String, Value>);

impl Entry {
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    pub(super) fn set_some<V: Into<Value>>(&mut self, key: &str, value: Option<V>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    pub(super) fn set_text(&mut self, key: &str, value: Option<&String>) {
        self.set_some(key, value.filter(|text| !text.is_empty()).cloned());
    }

    pub(super) fn set_secret(&mut self, key: &str, value: Option<&Secret>) {
        self.set_some(key, value.filter(|text| !text.is_empty()).map(|text| text.expose().to_owned()));
    }

    pub(super) fn set_yes(&mut self, key: &str, on: bool) {
        if on {
            self.set(key, true);
        }
    }

    /// Sets an object, unless it is empty.
    pub(super) fn set_entry(&mut self, key: &str, entry: Entry) {
        if !entry.0.is_empty() {
            self.set(key, Value::Object(entry.0));
        }
    }

    /// Puts back the parameters that came from this format.
    pub(super) fn restore(&mut self, node: &Node, prefix: &str) {
        for (key, value) in &node.extra {
            if let Some(key) = key.strip_prefix(prefix)
                && !self.0.contains_key(key)
            {
                self.set(key, typed(value));
            }
        }
    }
}

/// A parameter's text as the value that it was read from.
fn typed(text: &str) -> Value {
    let plain = || Value::String(text.to_owned());
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if text.starts_with(['{', '[']) => serde_json::from_str(text).unwrap_or_else(|_| plain()),
        _ => match text.parse::<i64>() {
            // A leading zero or a sign is part of a text.
            Ok(number) if number.to_string() == text => number.into(),
            Ok(_) | Err(_) => plain(),
        },
    }
}

/// Names that are not empty and not repeated, as formats want them that refer to nodes by name.
pub(super) struct Names(std::collections::HashSet<String>);

impl Names {
    pub(super) fn new() -> Self {
        Self(std::collections::HashSet::new())
    }

    /// The node's name, or its address; with a number behind it when it is taken.
    pub(super) fn unique(&mut self, node: &Node) -> String {
        let base: String = match &node.name {
            name if name.is_empty() => node.address.clone(),
            name => name.chars().filter(|c| !c.is_control()).collect(),
        };
        let mut name = base.clone();
        let mut number = 2;
        while !self.0.insert(name.clone()) {
            name = format!("{base} {number}");
            number += 1;
        }
        name
    }
}
