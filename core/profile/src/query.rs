//! The query of a link, read parameter by parameter; what nobody asks for is left over.

use indexmap::IndexMap;

use crate::text::{percent, yes};

struct Parameter {
    key: String,
    value: String,
    used: bool,
}

/// Parameters in the order of the link.
pub(crate) struct Query {
    parameters: Vec<Parameter>,
}

impl Query {
    /// Reads `key=value&…`; values are percent-decoded once, `+` stays `+`, `&amp;` is `&`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parameters = Vec::new();
        for pair in text.split('&') {
            let pair = pair.strip_prefix("amp;").unwrap_or(pair);
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if key.is_empty() {
                continue;
            }
            parameters.push(Parameter { key: percent(key), value: percent(value), used: false });
        }
        Self { parameters }
    }

    /// The first value that is not empty under the first of `keys` that has one, else the empty
    /// text. All of `keys` count as read.
    pub(crate) fn take(&mut self, keys: &[&str]) -> String {
        let mut found = None;
        for key in keys {
            let exact = self.parameters.iter().any(|p| p.key == *key);
            let mut first = true;
            for p in &mut self.parameters {
                if p.key == *key || (!exact && p.key.eq_ignore_ascii_case(key)) {
                    p.used = true;
                    if first && found.is_none() && !p.value.is_empty() {
                        found = Some(p.value.clone());
                    }
                    first = first && p.value.is_empty();
                }
            }
        }
        found.unwrap_or_default()
    }

    /// Like [`Query::take`], trimmed and in lower case.
    pub(crate) fn take_word(&mut self, keys: &[&str]) -> String {
        self.take(keys).trim().to_ascii_lowercase()
    }

    /// Whether any of `keys` is a yes. All of them count as read.
    pub(crate) fn take_yes(&mut self, keys: &[&str]) -> bool {
        let mut any = false;
        for key in keys {
            any |= yes(&self.take(&[key]));
        }
        any
    }

    /// The value of `key` without reading it.
    pub(crate) fn peek(&self, key: &str) -> &str {
        self.parameters.iter().find(|p| p.key.eq_ignore_ascii_case(key)).map_or("", |p| p.value.as_str())
    }

    /// What nobody read; of repeated keys the first.
    pub(crate) fn left_over(self) -> IndexMap<String, String> {
        let mut left = IndexMap::new();
        for p in self.parameters {
            if !p.used {
                left.entry(p.key).or_insert(p.value);
            }
        }
        left
    }
}
