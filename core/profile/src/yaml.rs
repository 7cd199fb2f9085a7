//! YAML as a tree whose scalars are text: a password 0123456789 stays that.
//!
//! Aliases share the node that they name, so a bomb of nested aliases takes no memory; its
//! expanded size is counted and refused.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

use crate::error::{ErrorKind, ParseError};

/// Nesting that no real document reaches.
const DEEPEST: usize = 64;
/// Nodes of the tree once all aliases are expanded.
const MOST_NODES: u64 = 1_000_000;

/// A node of the tree.
pub(crate) struct Yaml {
    kind: Kind,
    /// Nodes in it and below it, aliases expanded.
    weight: u64,
    /// Line in the document, from 1.
    pub(crate) line: usize,
}

enum Kind {
    Null,
    Scalar(String),
    Sequence(Vec<Rc<Yaml>>),
    Mapping(Vec<(Rc<Yaml>, Rc<Yaml>)>),
}

/// A collection that is not closed yet.
struct Open {
    anchor: usize,
    line: usize,
    items: Vec<Rc<Yaml>>,
    mapping: bool,
}

impl Open {
    fn close(self) -> Yaml {
        let weight = self.items.iter().fold(1u64, |sum, item| sum.saturating_add(item.weight));
        let kind = if self.mapping {
            let mut items = self.items.into_iter();
            let mut pairs = Vec::new();
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            Kind::Mapping(pairs)
        } else {
            Kind::Sequence(self.items)
        };
        Yaml { kind, weight, line: self.line }
    }
}

/// The first document of `text`, and what stopped the reading if something did: then the tree
/// holds the finished entries of the list that it stopped in.
pub(crate) fn parse(text: &str) -> (Option<Rc<Yaml>>, Option<ParseError>) {
    let mut anchors: HashMap<usize, Rc<Yaml>> = HashMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut total = 0u64;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                let line = place(text, error.marker().line(), error.info());
                let reason = format!("broken YAML at line {line}: {}", error.info());
                return (salvage(open), Some(ParseError::new(ErrorKind::BadYaml, reason)));
            }
        };
        let line = span.start.line();
        let (mut done, anchor) = match event {
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                if open.len() >= DEEPEST {
                    let reason = format!("the YAML is nested too deep at line {line}");
                    return (None, Some(ParseError::new(ErrorKind::TooDeep, reason)));
                }
                let mapping = matches!(event, Event::MappingStart(..));
                open.push(Open { anchor, line, items: Vec::new(), mapping });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(closed) => {
                    let anchor = closed.anchor;
                    (Rc::new(closed.close()), anchor)
                }
                None => continue,
            },
            Event::Scalar(text, style, anchor, tag) => {
                let null = style == ScalarStyle::Plain && tag.is_none() && matches!(text.as_ref(), "" | "~" | "null");
                let kind = if null { Kind::Null } else { Kind::Scalar(text.into_owned()) };
                total += 1;
                (Rc::new(Yaml { kind, weight: 1, line }), anchor)
            }
            Event::Alias(id) => {
                let target = anchors.get(&id).cloned();
                let target = target.unwrap_or_else(|| Rc::new(Yaml { kind: Kind::Null, weight: 1, line }));
                total = total.saturating_add(target.weight);
                (target, 0)
            }
            Event::DocumentEnd => break,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {
                continue;
            }
        };
        if total > MOST_NODES || done.weight > MOST_NODES {
            let reason = format!("the YAML is too large once expanded (alias expansion), at line {line}");
            return (None, Some(ParseError::new(ErrorKind::TooLarge, reason)));
        }
        if anchor > 0 {
            anchors.insert(anchor, Rc::clone(&done));
        }
        match open.last_mut() {
            Some(parent) => parent.items.push(done),
            None => {
                if let Some(root) = Rc::get_mut(&mut done) {
                    root.line = 1;
                }
                return (Some(done), None);
            }
        }
    }
    (salvage(open), None)
}

/// The line of an error: the scanner names the start of the text in which it met a tab.
fn place(text: &str, line: usize, info: &str) -> usize {
    if !info.contains("tab") {
        return line;
    }
    let ahead = text.lines().skip(line.saturating_sub(1)).take(1000).position(|line| line.starts_with('\t'));
    line + ahead.unwrap_or(0)
}

/// The root and the list in it that was being read, without the unfinished entry.
fn salvage(mut open: Vec<Open>) -> Option<Rc<Yaml>> {
    open.truncate(2);
    let inner = open.pop()?;
    let Some(mut root) = open.pop() else {
        return Some(Rc::new(inner.close()));
    };
    if root.mapping && root.items.len() % 2 == 1 && !inner.mapping {
        root.items.push(Rc::new(inner.close()));
    }
    Some(Rc::new(root.close()))
}

impl Yaml {
    /// The value of `key` in a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Rc<Yaml>> {
        match &self.kind {
            Kind::Mapping(pairs) => pairs.iter().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value),
            Kind::Null | Kind::Scalar(_) | Kind::Sequence(_) => None,
        }
    }

    /// The items of a sequence.
    pub(crate) fn items(&self) -> Option<&[Rc<Yaml>]> {
        match &self.kind {
            Kind::Sequence(items) => Some(items),
            Kind::Null | Kind::Scalar(_) | Kind::Mapping(_) => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(text) => Some(text),
            Kind::Null | Kind::Sequence(_) | Kind::Mapping(_) => None,
        }
    }

    /// The same as JSON: scalars as text, merge keys merged, own keys winning.
    pub(crate) fn value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Scalar(text) => Value::String(text.clone()),
            Kind::Sequence(items) => Value::Array(items.iter().map(|item| item.value()).collect()),
            Kind::Mapping(_) => {
                let mut map = Map::new();
                self.fill(&mut map);
                Value::Object(map)
            }
        }
    }

    /// Adds the pairs of a mapping that `map` doesn't have yet.
    fn fill(&self, map: &mut Map<String, Value>) {
        let Kind::Mapping(pairs) = &self.kind else {
            return;
        };
        for (key, value) in pairs {
            if let Some(key) = key.text().filter(|key| *key != "<<")
                && !map.contains_key(key)
            {
                map.insert(key.to_owned(), value.value());
            }
        }
        for (key, value) in pairs {
            if key.text() == Some("<<") {
                value.fill(map);
                value.items().into_iter().flatten().for_each(|item| item.fill(map));
            }
        }
    }
}
