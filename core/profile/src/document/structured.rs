//! JSON documents: which program's are they?

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Builder, Format, clash, list, singbox, sip008, xray};
use crate::error::{ErrorKind, ParseError};
use crate::json::{self, Fields};
use crate::link::parse_link;

/// Reads `text` when it is JSON, or at least meant to be; `None` when it is prose that starts with a bracket.
pub(super) fn json(text: &str, out: &mut Builder, wraps: usize) -> Option<Format> {
    let value = match json::parse(text) {
        Ok(value) => value,
        Err(_) if clash::is_clash(text) => return None,
        Err(error) => {
            if error.kind == ErrorKind::BadJson {
                list::read(text, out, wraps);
                if !out.nodes.is_empty() {
                    return Some(Format::PlainList);
                }
                out.skipped.clear();
                out.skipped_more = 0;
            }
            out.skip(None, String::new(), &error);
            return Some(Format::UnknownJson);
        }
    };
    Some(match value {
        Value::Object(map) if is_clash(&map) => {
            drop(map);
            clash::read(text, out);
            Format::ClashYaml
        }
        Value::Object(map) => object(map, out, text),
        Value::Array(items) => array(items, out, wraps),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Format::UnknownJson,
    })
}

fn is_clash(map: &Map<String, Value>) -> bool {
    map.get("proxies").or_else(|| map.get("Proxy")).is_some_and(Value::is_array)
}

fn first_object<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    map.get(key)?.as_array()?.iter().find_map(Value::as_object)
}

/// Whether an object is a whole sing-box configuration.
fn is_sing_box(map: &Map<String, Value>) -> bool {
    map.get("endpoints").is_some_and(Value::is_array)
        || first_object(map, "outbounds").is_some_and(|first| first.contains_key("type"))
}

fn object(map: Map<String, Value>, out: &mut Builder, text: &str) -> Format {
    if is_sing_box(&map) {
        singbox::read(Fields(map), out);
        return Format::SingBoxJson;
    }
    if map.get("outbounds").is_some_and(Value::is_array) {
        xray::read(Fields(map), out);
        return Format::XrayJson;
    }
    let mut f = Fields(map);
    if first_object(&f.0, "servers").is_some_and(|first| first.contains_key("server")) {
        sip008::read(f.take_objects(&["servers"]), out);
        return Format::Sip008;
    }
    if f.0.contains_key("protocol") && f.0.contains_key("settings") {
        xray::outbound("", f, out);
        return Format::XrayJson;
    }
    if f.0.contains_key("server") && f.0.contains_key("method") && !f.0.contains_key("type") {
        sip008::read(vec![f], out);
        return Format::Sip008;
    }
    if f.0.contains_key("server") && f.0.contains_key("type") {
        singbox::outbound(f, out);
        return Format::SingBoxJson;
    }
    if f.0.contains_key("add") && f.0.contains_key("id") {
        let link = format!("vmess://{}", STANDARD.encode(text));
        out.entry(None, "vmess://…".to_owned(), parse_link(&link));
        return Format::PlainList;
    }
    if let Some(message) = message(&mut f) {
        out.say(&message);
    }
    Format::UnknownJson
}

/// The message of a panel's error.
fn message(f: &mut Fields) -> Option<String> {
    for key in ["message", "msg", "error", "detail", "reason", "errors", "data"] {
        if let Some(text) = f.take_some(&[key]) {
            return Some(text);
        }
        let mut inner = f.take_object(&[key]);
        if let Some(text) = inner.take_some(&["message", "msg", "error", "detail"]) {
            return Some(text);
        }
    }
    None
}

fn array(items: Vec<Value>, out: &mut Builder, wraps: usize) -> Format {
    let first = items.iter().find_map(Value::as_object);
    let has = |key: &str| first.is_some_and(|first| first.contains_key(key));
    if items.iter().all(Value::is_string) {
        let lines: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
        list::read(&lines.join("\n"), out, wraps);
        return if out.nodes.is_empty() && out.skipped.is_empty() { Format::UnknownJson } else { Format::PlainList };
    }
    let (outbounds, sing_box) = (has("outbounds"), first.is_some_and(is_sing_box));
    let (protocol, server) = (has("protocol"), has("server"));
    let (method, kind) = (has("method"), has("type"));
    let objects = items.into_iter().filter_map(|item| match item {
        Value::Object(map) => Some(Fields(map)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    });
    if outbounds && sing_box {
        objects.for_each(|config| singbox::read(config, out));
        Format::SingBoxJson
    } else if outbounds {
        objects.for_each(|config| xray::read(config, out));
        Format::XrayJsonArray
    } else if protocol {
        objects.for_each(|outbound| xray::outbound("", outbound, out));
        Format::XrayJson
    } else if server && kind {
        objects.for_each(|outbound| singbox::outbound(outbound, out));
        Format::SingBoxJson
    } else if server && method {
        sip008::read(objects.collect(), out);
        Format::Sip008
    } else {
        out.skip(None, String::new(), &ParseError::new(ErrorKind::NoNodes, "a JSON list without nodes"));
        Format::UnknownJson
    }
}
