//! A JSON tree as block YAML, every text in double quotes so that none is taken for a number.

use serde_json::{Map, Value};

/// Writes the fields of `map` at `indent`, the first one where the line already stands.
pub(super) fn mapping(map: &Map<String, Value>, indent: usize, out: &mut String) {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            margin(indent, out);
        }
        let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if plain && key.starts_with(|c: char| c.is_ascii_alphabetic()) {
            out.push_str(key);
        } else {
            out.push_str(&quoted(key));
        }
        out.push(':');
        if let Some(map) = value.as_object().filter(|map| !map.is_empty()) {
            out.push('\n');
            margin(indent + 2, out);
            mapping(map, indent + 2, out);
        } else {
            out.push(' ');
            out.push_str(&scalar(value));
            out.push('\n');
        }
    }
}

fn margin(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A scalar, or a list or object in flow style, which JSON is.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// YAML's double quotes take JSON's escapes; what YAML calls unprintable is escaped as well.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for c in Value::String(text.to_owned()).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out
}
