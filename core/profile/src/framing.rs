//! One way to make a transport out of the parts that all formats know by other names.

use serde_json::Value;

use crate::json;
use crate::node::{Secret, Transport};
use crate::text::{percent, some, trim};

/// The parts of a transport; empty text for what is not given.
#[derive(Default)]
pub(crate) struct Framing {
    pub(crate) kind: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) service_name: String,
    pub(crate) mode: String,
    pub(crate) authority: String,
    pub(crate) header_type: String,
    pub(crate) seed: String,
    pub(crate) mtu: Option<u16>,
    pub(crate) quic_security: String,
    pub(crate) quic_key: String,
    pub(crate) early_data: Option<u32>,
    pub(crate) early_data_header: String,
    pub(crate) extra: Option<Value>,
}

/// The one name of a transport among its many, or `None` when it is unknown.
pub(crate) fn canonical(kind: &str) -> Option<&'static str> {
    Some(match kind.trim().to_ascii_lowercase().as_str() {
        "" | "tcp" | "raw" | "none" | "original" => "tcp",
        "ws" | "websocket" | "wss" => "ws",
        "httpupgrade" | "http-upgrade" => "httpupgrade",
        "grpc" | "gun" => "grpc",
        "h2" | "http" | "h3" => "http",
        "xhttp" | "splithttp" => "xhttp",
        "kcp" | "mkcp" => "mkcp",
        "quic" => "quic",
        _ => return None,
    })
}

impl Framing {
    /// The transport.
    pub(crate) fn build(self) -> Transport {
        match canonical(&self.kind) {
            None => Transport::Unknown { name: self.kind.trim().to_ascii_lowercase() },
            Some("ws") => {
                let (path, early_data, header) = split_early_data(&self.path);
                Transport::Ws {
                    host: some(self.host),
                    path,
                    early_data: self.early_data.or(early_data),
                    early_data_header: some(self.early_data_header).or(header),
                }
            }
            Some("httpupgrade") => {
                let (path, early_data, _) = split_early_data(&self.path);
                Transport::Httpupgrade { host: some(self.host), path, early_data: self.early_data.or(early_data) }
            }
            Some("grpc") => Transport::Grpc {
                service_name: Some(self.service_name),
                mode: Some(match self.mode.trim().to_ascii_lowercase() {
                    mode if mode.is_empty() || mode == "none" => "gun".to_owned(),
                    mode => mode,
                }),
                authority: some(self.authority),
            },
            Some("http") => Transport::Http { host: some(self.host), path: some(self.path) },
            Some("xhttp") => Transport::Xhttp {
                host: some(self.host),
                path: some(self.path),
                mode: some(self.mode.trim().to_ascii_lowercase()).filter(|mode| mode != "none"),
                extra: self.extra,
            },
            Some("mkcp") => Transport::Kcp {
                header_type: some(self.header_type.to_ascii_lowercase()),
                seed: some(self.seed).map(Secret::new),
                mtu: self.mtu,
            },
            Some("quic") => Transport::Quic {
                quic_security: some(self.quic_security.to_ascii_lowercase()),
                quic_key: some(self.quic_key).map(Secret::new),
                header_type: some(self.header_type.to_ascii_lowercase()),
            },
            Some(_) => {
                let header_type = some(self.header_type.trim().to_ascii_lowercase());
                let http = header_type.as_deref() == Some("http");
                Transport::Tcp {
                    header_type,
                    host: some(self.host).filter(|_| http),
                    path: some(self.path).filter(|_| http),
                }
            }
        }
    }
}

/// A WebSocket path: without `ed` and `eh`, with a slash in front, decoded once more when it was
/// encoded twice.
fn split_early_data(path: &str) -> (Option<String>, Option<u32>, Option<String>) {
    let path = trim(path);
    let twice = path.get(..3).is_some_and(|head| head.eq_ignore_ascii_case("%2f"));
    let path = if twice { percent(path) } else { path.to_owned() };
    let (base, query) = match path.split_once('?') {
        None => (path.as_str(), None),
        Some((base, query)) => (base, Some(query)),
    };
    let (mut early_data, mut header) = (None, None);
    let mut kept: Vec<&str> = Vec::new();
    let early = query.is_some_and(|query| {
        query.split('&').any(|pair| pair.strip_prefix("ed=").is_some_and(|n| n.parse::<u32>().is_ok()))
    });
    for pair in query.iter().flat_map(|query| query.split('&')) {
        if let Some(number) = pair.strip_prefix("ed=").and_then(|n| n.parse().ok()) {
            early_data.get_or_insert(number);
        } else if let Some(name) = pair.strip_prefix("eh=").filter(|name| early && !name.is_empty()) {
            header.get_or_insert(name.to_owned());
        } else {
            kept.push(pair);
        }
    }
    let mut out = base.to_owned();
    if query.is_some() && !(kept.is_empty() && early) {
        out.push('?');
        out.push_str(&kept.join("&"));
    }
    if !out.is_empty() && !out.starts_with('/') {
        out.insert(0, '/');
    }
    (some(out), early_data.filter(|n| *n > 0), header)
}

/// A WebSocket path with its early data written back into it.
pub(crate) fn join_early_data(path: Option<&str>, early_data: Option<u32>, header: Option<&str>) -> String {
    let mut out = path.unwrap_or_default().to_owned();
    let mut add = |text: String| {
        out.push(if out.contains('?') { '&' } else { '?' });
        out.push_str(&text);
    };
    if let Some(number) = early_data {
        add(format!("ed={number}"));
        if let Some(header) = header {
            add(format!("eh={header}"));
        }
    }
    out
}

/// The `extra` object of XHTTP, out of JSON as people write it: with blanks as `+`, or as Python prints it.
pub(crate) fn xhttp_extra(text: &str) -> Option<Value> {
    let object = |text: &str| json::parse(text).ok().filter(Value::is_object);
    object(text).or_else(|| object(&text.replace('+', " "))).or_else(|| {
        let words = text.replace('\'', "\"").replace("True", "true").replace("False", "false").replace("None", "null");
        object(&words)
    })
}
