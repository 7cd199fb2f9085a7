//! Shadowsocks links: SIP002, the old form that is base64 as a whole, 2022 keys, plugins.

use indexmap::IndexMap;
use serde_json::Value;

use super::split::Parts;
use super::xray::named;
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::framing;
use crate::json;
use crate::node::{Node, Plugin, Protocol, Secret, Shadowsocks};
use crate::query::Query;
use crate::text::{base64_text, percent, trim};

/// Both forms.
pub(super) fn parse(body: &str) -> Result<Node, ParseError> {
    let parts = Parts::of(body);
    if parts.user.is_some() {
        let (method, password) = user(parts.user.unwrap_or_default())?;
        return node(&parts, &method, &password);
    }
    let (rest, fragment) = body.split_once('#').unwrap_or((body, ""));
    let (head, query) = rest.split_once('?').unwrap_or((rest, ""));
    let text = base64_text(head).or_else(|error| base64_text(head.trim_end_matches('/')).map_err(|_| error))?;
    let text = trim(&text);
    let Some((user, server)) = text.rsplit_once('@') else {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no cipher and password before the server"));
    };
    let mut parts = Parts::of(server);
    parts.query = if query.is_empty() { parts.query } else { query };
    parts.fragment = if fragment.is_empty() { parts.fragment } else { fragment };
    let Some((method, password)) = user.split_once(':') else {
        return Err(no_password());
    };
    node(&parts, method, password)
}

fn no_password() -> ParseError {
    ParseError::new(ErrorKind::MissingCredential, "there is no cipher:password")
}

/// Method and password before the `@`: plain, or in base64.
fn user(text: &str) -> Result<(String, String), ParseError> {
    if let Some((method, password)) = text.split_once(':') {
        return Ok((percent(method), percent(password)));
    }
    let decoded = percent(text);
    let pair = |text: &str| text.split_once(':').map(|(method, password)| (method.to_owned(), password.to_owned()));
    if let Some((method, password)) = pair(&decoded) {
        return Ok((method, password));
    }
    base64_text(&decoded).ok().and_then(|text| pair(&text)).ok_or_else(no_password)
}

fn node(parts: &Parts<'_>, method: &str, password: &str) -> Result<Node, ParseError> {
    let (address, port) = parts.server(None)?;
    let mut query = Query::parse(parts.query);
    let method = fields::shadowsocks_method(method);
    let password = password.trim_end_matches(['\n', '\r']).to_owned();
    fields::shadowsocks_password(&method, &password)?;
    let udp_over_tcp = query.take_yes(&["uot", "udp-over-tcp", "udp_over_tcp"]);
    let plugin = plugin(&mut query);
    let over = foreign_transport(&query);
    let name = named(parts, &mut query);
    let shadowsocks = Shadowsocks { method, password: Secret::new(password), plugin, udp_over_tcp };
    let mut node = Node::new(name, address, port, Protocol::Shadowsocks(shadowsocks));
    node.extra = query.left_over();
    if over {
        let reason = "Shadowsocks over an Xray transport or TLS is not supported; a plugin is";
        node.mark_unsupported(ErrorKind::BadTransport, reason);
    }
    Ok(node)
}

/// Xray's transport parameters on a Shadowsocks link ask for more than plain TCP.
fn foreign_transport(query: &Query) -> bool {
    let security = query.peek("security");
    framing::canonical(query.peek("type")) != Some("tcp")
        || !(security.is_empty() || security.eq_ignore_ascii_case("none"))
        || query.peek("headerType").eq_ignore_ascii_case("http")
}

fn plugin(query: &mut Query) -> Option<Plugin> {
    let text = query.take(&["plugin"]);
    if !text.trim().is_empty() {
        let (name, opts) = plugin_options(&text);
        return Some(Plugin { name, opts });
    }
    for name in ["v2ray-plugin", "shadow-tls"] {
        let text = query.take(&[name]);
        if let Some(Value::Object(map)) = base64_text(&text).ok().and_then(|text| json::parse(&text).ok()) {
            let opts = map.into_iter().filter_map(|(key, value)| option(key, &value)).collect();
            return Some(Plugin { name: name.to_owned(), opts });
        }
    }
    None
}

/// An option out of JSON or YAML: texts stay, a yes becomes a flag, a no is left out.
pub(crate) fn option(key: String, value: &Value) -> Option<(String, Value)> {
    match json::text(value)?.as_str() {
        "true" => Some((key, Value::Bool(true))),
        "false" | "" => None,
        text => Some((key, text.into())),
    }
}

/// The plugin's one name.
pub(crate) fn plugin_name(name: &str) -> String {
    match trim(name) {
        "simple-obfs" | "obfs" | "obfs-local" => "obfs-local".to_owned(),
        "v2ray" | "v2ray-plugin" => "v2ray-plugin".to_owned(),
        other => other.to_owned(),
    }
}

/// `name;key=value;flag` with the escapes of SIP003.
pub(crate) fn plugin_options(text: &str) -> (String, IndexMap<String, Value>) {
    let mut items = split_escaped(text).into_iter();
    let name = plugin_name(&items.next().map(|(name, _)| name).unwrap_or_default());
    let mut opts = IndexMap::new();
    for (key, value) in items {
        let key = match (name.as_str(), key.as_str()) {
            ("v2ray-plugin", "obfs") => "mode".to_owned(),
            ("v2ray-plugin", "obfs-host") => "host".to_owned(),
            _ => key,
        };
        if !key.is_empty() {
            opts.entry(key).or_insert(value.map_or(Value::Bool(true), Value::String));
        }
    }
    (name, opts)
}

/// Splits at unescaped `;`, each item at its first unescaped `=`.
fn split_escaped(text: &str) -> Vec<(String, Option<String>)> {
    let mut items = Vec::new();
    let (mut key, mut value): (String, Option<String>) = Default::default();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ';' => items.push((trim(&key).to_owned(), value.take())),
            '=' if value.is_none() => value = Some(String::new()),
            _ => {
                let c = if c == '\\' { chars.next().unwrap_or(c) } else { c };
                value.as_mut().unwrap_or(&mut key).push(c);
            }
        }
        if c == ';' {
            key.clear();
        }
    }
    items.push((trim(&key).to_owned(), value));
    items
}
