//! The four families of VMess links.

use super::security::{self, Remarks};
use super::shadowrocket;
use super::split::Parts;
use super::xray::{named, user_text};
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::framing::{self, Framing};
use crate::json::{self, Fields};
use crate::node::{Node, Protocol, Tls, Transport, UserId, Vmess};
use crate::query::Query;
use crate::text::{self, base64_text, commas, some, yes};

/// Tries the URI form, Shadowrocket's, v2rayN's JSON and Quantumult's line, in this order.
pub(super) fn parse(body: &str) -> Result<Node, ParseError> {
    let parts = Parts::of(body);
    if parts.user.is_some() {
        return uri(&parts);
    }
    let head = body.split(['?', '#']).next().unwrap_or_default();
    let text = base64_text(head).or_else(|whole| match head.split_whitespace().next() {
        Some(first) if first.len() < head.len() => base64_text(first).map_err(|_| whole),
        _ => Err(whole),
    });
    let no_json = || ParseError::new(ErrorKind::BadJson, "the base64 text holds neither JSON nor another VMess form");
    let mut text = text.map_err(|error| if error.kind == ErrorKind::BadEncoding { no_json() } else { error })?;
    if text.starts_with("eyJ")
        && let Ok(inner) = base64_text(&text)
    {
        text = inner;
    }
    let text = text::trim(&text);
    if text.starts_with('{') {
        return v2rayn(text, &parts);
    }
    if let Some(at) = text.rfind("= vmess,").or_else(|| text.rfind("=vmess,")) {
        return quantumult(&text[..at], &text[at..]);
    }
    if text.contains('@') && !text.starts_with(['[', '"']) {
        return shadowrocket::vmess(text, &parts);
    }
    Err(no_json())
}

/// The cipher's one spelling.
pub(super) fn cipher(text: &str) -> String {
    match text.trim().to_ascii_lowercase() {
        lower if lower.is_empty() => "auto".to_owned(),
        lower if lower == "chacha20-ietf-poly1305" => "chacha20-poly1305".to_owned(),
        lower => lower,
    }
}

/// `vmess://uuid@…`, `vmess://method:uuid@…` and the draft's `vmess://network+tls:uuid-alterId@…`.
fn uri(parts: &Parts<'_>) -> Result<Node, ParseError> {
    let (word, id) = user_text(parts.user.unwrap_or_default());
    let (address, port) = parts.server(None)?;
    let mut query = Query::parse(parts.query);
    let mut remarks = Remarks::default();
    let mut vmess = Vmess {
        user: UserId { uuid: "".into(), uuid_raw: None },
        alter_id: query.take(&["alterId", "aid"]).trim().parse().unwrap_or(0),
        encryption: cipher(&query.take(&["encryption"])),
        tls: Tls::default(),
        transport: Transport::default(),
        packet_encoding: security::packet_encoding(&query.take(&["packetEncoding", "packet-encoding"])),
    };
    let draft = word.as_deref().map(|word| word.strip_suffix("+tls").map_or((word, false), |word| (word, true)));
    match draft.filter(|(word, _)| framing::canonical(word).is_some() && *word != "none") {
        Some((network, tls)) => {
            let (id, alter_id) = id.rsplit_once('-').unwrap_or((&id, "0"));
            vmess.user = fields::user_id(id)?;
            vmess.alter_id = alter_id.parse().unwrap_or(0);
            vmess.tls = Tls { enabled: tls, ..security::options(&mut query) };
            let (host, path) = (query.take(&["host"]), query.take(&["path"]));
            let kind = network.to_owned();
            let header_type = query.take_word(&["type"]);
            let service_name = query.take(&["serviceName"]);
            vmess.transport = Framing { kind, host, path, header_type, service_name, ..Framing::default() }.build();
        }
        None => {
            vmess.user = fields::user_id(&id)?;
            if let Some(word) = word {
                vmess.encryption = cipher(&word);
            }
            vmess.tls = security::tls(&mut query, false, &mut remarks)?;
            vmess.transport = plain(security::transport(&mut query, &mut remarks));
        }
    }
    let name = named(parts, &mut query);
    Ok(remarks.finish(Node::new(name, address, port, Protocol::Vmess(vmess)), query))
}

/// VMess links can't tell a header type of `none` from an absent one.
fn plain(transport: Transport) -> Transport {
    match transport {
        Transport::Tcp { header_type: Some(kind), .. } if kind == "none" => Transport::default(),
        Transport::Tcp { .. }
        | Transport::Ws { .. }
        | Transport::Httpupgrade { .. }
        | Transport::Grpc { .. }
        | Transport::Http { .. }
        | Transport::Xhttp { .. }
        | Transport::Kcp { .. }
        | Transport::Quic { .. }
        | Transport::Unknown { .. } => transport,
    }
}

/// Base64 of JSON, as v2rayN writes it.
fn v2rayn(text: &str, parts: &Parts<'_>) -> Result<Node, ParseError> {
    let serde_json::Value::Object(map) = json::parse(text)? else {
        return Err(ParseError::new(ErrorKind::BadJson, "the JSON is no object"));
    };
    let mut f = Fields(map);
    let version = f.take(&["v"]);
    let name = match text::name(&f.take(&["ps", "remark", "remarks"])) {
        name if name.is_empty() => parts.name(),
        name => name,
    };
    let address = fields::host(&f.take(&["add", "address"]))?;
    let port = fields::port(&f.take(&["port"]))?;
    let user = fields::user_id(&f.take(&["id", "uuid"]))?;
    let alter_id = f.take(&["aid", "alterId"]).trim().parse().unwrap_or(0);
    let encryption = cipher(&f.take(&["scy", "security", "cipher"]));
    let verify = f.take_word(&["verify_cert"]);
    let security = f.take(&["tls"]);
    let tls = Tls {
        enabled: yes(&security) || security.trim().eq_ignore_ascii_case("tls"),
        sni: some(f.take(&["sni", "peer"]).trim()),
        alpn: commas(&f.take(&["alpn"])),
        fingerprint: some(f.take_word(&["fp"])),
        insecure: f.take_yes(&["insecure", "allowInsecure", "skip-cert-verify", "allow_insecure"]) || verify == "false",
        ..Tls::default()
    };
    let mut kept = Vec::new();
    let transport = v2rayn_transport(&mut f, &version, &mut kept);
    let vmess = Vmess { user, alter_id, encryption, tls, transport, packet_encoding: None };
    let mut node = Node::new(name, address, port, Protocol::Vmess(vmess));
    if security.trim().eq_ignore_ascii_case("reality") || security.trim().eq_ignore_ascii_case("xtls") {
        node.mark_unsupported(
            ErrorKind::BadSecurity,
            format!("a VMess JSON link can't say {}", text::shown(&security)),
        );
        kept.push(("tls".to_owned(), security));
    }
    node.extra.extend(kept);
    for (key, value) in f.0 {
        let text = match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => text,
            other @ (serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::Array(_)
            | serde_json::Value::Object(_)) => other.to_string(),
        };
        if !text.is_empty() {
            node.extra.insert(key, text);
        }
    }
    Ok(node)
}

/// What `type`, `host` and `path` mean depends on `net`.
fn v2rayn_transport(f: &mut Fields, version: &str, kept: &mut Vec<(String, String)>) -> Transport {
    let kind = f.take_word(&["net", "network"]);
    let word = f.take(&["type", "headerType"]);
    let (mut host, mut path) = (f.take(&["host"]), f.take(&["path"]));
    if matches!(version.trim(), "" | "1") && path.is_empty() && matches!(framing::canonical(&kind), Some("ws" | "http"))
    {
        (host, path) = old_host(&host);
    }
    let mut parts = Framing { kind, ..Framing::default() };
    let none = word.is_empty() || ["none", "auto"].iter().any(|none| word.eq_ignore_ascii_case(none));
    match framing::canonical(&parts.kind) {
        Some("tcp") if none => {
            let stray = [("host", host), ("path", path)];
            kept.extend(stray.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v)));
        }
        Some("tcp") => (parts.header_type, parts.host, parts.path) = (word, host, path),
        Some("mkcp") => (parts.header_type, parts.seed) = (word, path),
        Some("quic") => (parts.header_type, parts.quic_security, parts.quic_key) = (word, host, path),
        Some("grpc") => (parts.mode, parts.authority, parts.service_name) = (word, host, path),
        Some("xhttp") => {
            parts.mode = if none { String::new() } else { word };
            (parts.host, parts.path) = (host, path);
        }
        Some(_) => (parts.host, parts.path) = (host, path),
        None => {
            let all = [("type", word), ("host", host), ("path", path)];
            kept.extend(all.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v)));
        }
    }
    parts.build()
}

/// The first layout held host and path in one, in either order; the part with a slash is the path.
fn old_host(text: &str) -> (String, String) {
    let (mut host, mut path) = (String::new(), String::new());
    for part in text.split(';').map(text::trim).filter(|part| !part.is_empty()) {
        if part.starts_with('/') {
            path = part.to_owned();
        } else {
            host = part.to_owned();
        }
    }
    (host, path)
}

/// `name = vmess, host, port, cipher, "uuid", key=value, …`.
fn quantumult(name: &str, rest: &str) -> Result<Node, ParseError> {
    let mut items = quoted_commas(rest).into_iter().skip(1);
    let mut next = || items.next().unwrap_or_default();
    let address = fields::host(&next())?;
    let port = fields::port(&next())?;
    let encryption = cipher(&next());
    let user = fields::user_id(&next())?;
    let mut options = Fields::default();
    for item in items {
        if let Some((key, value)) = item.split_once('=') {
            let value = text::trim(value).trim_matches('"').to_owned();
            options.0.insert(text::trim(key).to_ascii_lowercase(), value.into());
        }
    }
    let host = options
        .take(&["obfs-header"])
        .replace("[Rr][Nn]", "\n")
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim().eq_ignore_ascii_case("host"))
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default();
    let tls = Tls {
        enabled: options.take_yes(&["over-tls"]),
        sni: options.take_some(&["tls-host"]),
        insecure: options.take(&["certificate"]) == "0",
        ..Tls::default()
    };
    let tls = if tls.enabled { tls } else { Tls { insecure: false, ..tls } };
    let kind = match options.take_word(&["obfs"]) {
        kind if kind == "wss" => "ws".to_owned(),
        kind => kind,
    };
    let mut parts = Framing { host, path: options.take(&["obfs-path"]), ..Framing::default() };
    if kind == "http" {
        parts.header_type = kind;
    } else {
        parts.kind = kind;
    }
    let alter_id = options.take(&["alterid", "aid"]).trim().parse().unwrap_or(0);
    let vmess = Vmess { user, alter_id, encryption, tls, transport: parts.build(), packet_encoding: None };
    let mut node = Node::new(text::name(name), address, port, Protocol::Vmess(vmess));
    node.extra = options.0.into_iter().filter_map(|(key, value)| Some((key, json::text(&value)?))).collect();
    Ok(node)
}

/// Splits at commas outside of quotes; quotes round an item go away.
fn quoted_commas(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        if c == '"' {
            quoted = !quoted;
        }
        match (c, items.last_mut()) {
            (',', _) if !quoted => items.push(String::new()),
            (c, Some(item)) => item.push(c),
            (_, None) => {}
        }
    }
    items.iter().map(|item| text::trim(item)).map(|item| item.trim_matches('"').to_owned()).collect()
}
