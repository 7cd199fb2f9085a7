//! JSON as people write it: with comments, trailing commas and line breaks inside of texts.

use serde_json::{Map, Value};

use crate::error::{ErrorKind, ParseError};
use crate::text::some;

/// Nesting that no real document reaches.
const DEEPEST: usize = 100;
/// Commas, colons and brackets: a bound on the memory that the tree can take.
const MOST_PARTS: usize = 2_000_000;

/// Parses `text`: strictly at first, then without comments, trailing commas and raw control characters.
pub(crate) fn parse(text: &str) -> Result<Value, ParseError> {
    bounded(text)?;
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(strict) => serde_json::from_str(&cleaned(text)).map_err(|_| {
            let what = if strict.is_eof() { "it ends too early (unexpected end)" } else { "it is no JSON" };
            ParseError::new(ErrorKind::BadJson, format!("broken JSON near line {}: {what}", strict.line()))
        }),
    }
}

/// Refuses what would nest too deep or grow too large as a tree.
fn bounded(text: &str) -> Result<(), ParseError> {
    let (mut depth, mut parts) = (0usize, 0usize);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        if quoted {
            quoted = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' => {
                depth += 1;
                parts += 1;
                if depth > DEEPEST {
                    return Err(ParseError::new(ErrorKind::TooDeep, "the JSON is nested too deep"));
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' | b':' => parts += 1,
            _ => {}
        }
    }
    if parts > MOST_PARTS {
        return Err(ParseError::new(ErrorKind::TooLarge, "the JSON has too many parts"));
    }
    Ok(())
}

/// `text` without comments and trailing commas, control characters in texts escaped, line breaks kept.
fn cleaned(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    let mut comma = None;
    while let Some(c) = rest.next() {
        if quoted {
            match c {
                '\\' => {
                    out.push(c);
                    if let Some(next) = rest.next() {
                        out.push(next);
                    }
                }
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() => {}
                c => {
                    quoted = c != '"';
                    out.push(c);
                }
            }
            continue;
        }
        match (c, rest.peek()) {
            ('/', Some('/')) | ('#', _) => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
            }
            ('/', Some('*')) => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if c == '\n' {
                        out.push(c);
                    }
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            ('"', _) => {
                comma = None;
                quoted = true;
                out.push(c);
            }
            (',', _) => {
                comma = Some(out.len());
                out.push(c);
            }
            ('}' | ']', _) => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(c);
            }
            (c, _) => {
                if !c.is_whitespace() && c != '\u{feff}' {
                    comma = None;
                }
                out.push(c);
            }
        }
    }
    out
}

/// A scalar as text; nothing for null, lists and objects.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(on) => Some(on.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The fields of an object, read one by one; what nobody asks for is left over.
#[derive(Default)]
pub(crate) struct Fields(pub(crate) Map<String, Value>);

impl Fields {
    /// The scalar under the first of `keys` that has one which is not empty; all of `keys` count as read.
    pub(crate) fn take(&mut self, keys: &[&str]) -> String {
        let mut found = String::new();
        for key in keys {
            if !self.0.get(*key).is_some_and(|value| value.is_object() || value.is_array())
                && let Some(value) = self.0.remove(*key)
                && found.is_empty()
            {
                found = text(&value).unwrap_or_default();
            }
        }
        found
    }

    /// Like [`Fields::take`], `None` when empty.
    pub(crate) fn take_some(&mut self, keys: &[&str]) -> Option<String> {
        some(self.take(keys))
    }

    /// Like [`Fields::take`], trimmed and in lower case.
    pub(crate) fn take_word(&mut self, keys: &[&str]) -> String {
        self.take(keys).trim().to_ascii_lowercase()
    }

    /// Whether any of `keys` is a yes.
    pub(crate) fn take_yes(&mut self, keys: &[&str]) -> bool {
        let mut any = false;
        for key in keys {
            any |= crate::text::yes(&self.take(&[key]));
        }
        any
    }

    /// A number.
    pub(crate) fn take_number<N: std::str::FromStr>(&mut self, keys: &[&str]) -> Option<N> {
        self.take(keys).trim().parse().ok()
    }

    /// The object under the first of `keys` that holds one, else an empty one.
    pub(crate) fn take_object(&mut self, keys: &[&str]) -> Fields {
        for key in keys {
            if self.0.get(*key).is_some_and(Value::is_object)
                && let Some(Value::Object(map)) = self.0.remove(*key)
            {
                return Fields(map);
            }
        }
        Fields::default()
    }

    /// A list of texts: a JSON list of scalars, or a comma list.
    pub(crate) fn take_list(&mut self, keys: &[&str]) -> Vec<String> {
        for key in keys {
            match self.0.remove(*key) {
                None | Some(Value::Null) => {}
                Some(Value::Array(items)) => {
                    return items.iter().filter_map(text).filter(|t| !t.is_empty()).collect();
                }
                Some(Value::Object(_)) => return Vec::new(),
                Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
                    return crate::text::commas(&text(&value).unwrap_or_default());
                }
            }
        }
        Vec::new()
    }

    /// The objects of a list.
    pub(crate) fn take_objects(&mut self, keys: &[&str]) -> Vec<Fields> {
        for key in keys {
            if let Some(Value::Array(items)) = self.0.remove(*key) {
                return items
                    .into_iter()
                    .filter_map(|item| match item {
                        Value::Object(map) => Some(Fields(map)),
                        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
                    })
                    .collect();
            }
        }
        Vec::new()
    }

    /// The value under `key` under any capitals, such as a header's.
    pub(crate) fn take_header(&mut self, key: &str) -> String {
        let name = self.0.keys().find(|name| name.eq_ignore_ascii_case(key)).cloned();
        let Some(name) = name else {
            return String::new();
        };
        match self.0.remove(&name) {
            Some(Value::Array(items)) => items.first().and_then(text).unwrap_or_default(),
            Some(value) => text(&value).unwrap_or_default(),
            None => String::new(),
        }
    }
}
