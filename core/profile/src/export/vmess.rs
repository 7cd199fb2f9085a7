//! VMess as v2rayN's JSON, which every client reads, or as a URI where the JSON has no word for something.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::is_foreign;
use super::link::{Parameters, join, security, transport, user};
use crate::framing::join_early_data;
use crate::node::{Node, Secret, Transport, Vmess};
use crate::text::escape;

/// Keys that the JSON gives a meaning: an unknown parameter of that name needs the URI form.
const TAKEN: &[&str] = &[
    "v",
    "ps",
    "add",
    "port",
    "id",
    "aid",
    "scy",
    "security",
    "net",
    "sni",
    "peer",
    "alpn",
    "fp",
    "insecure",
    "allowInsecure",
    "skip-cert-verify",
    "verify_cert",
    "remark",
    "remarks",
    "address",
    "uuid",
    "alterId",
    "cipher",
    "allow_insecure",
    "network",
    "headerType",
];

/// The link.
pub(super) fn link(node: &Node, options: &Vmess) -> String {
    match as_json(node, options) {
        Some(map) => format!("vmess://{}", STANDARD.encode(Value::Object(map).to_string())),
        None => as_uri(node, options),
    }
}

fn as_uri(node: &Node, options: &Vmess) -> String {
    let mut p = Parameters::new(node);
    p.add("encryption", &options.encryption);
    if options.alter_id > 0 {
        p.add("alterId", &options.alter_id.to_string());
    }
    security(&mut p, &options.tls);
    transport(&mut p, &options.transport);
    p.add_some("packetEncoding", options.packet_encoding.as_deref());
    join("vmess", &escape(user(&options.user)), node, p)
}

fn as_json(node: &Node, options: &Vmess) -> Option<Map<String, Value>> {
    let tls = &options.tls;
    let beyond = tls.reality.is_some() || tls.pin_sha256.is_some() || tls.ech.is_some() || tls.disable_sni;
    let known = |key: &String| TAKEN.contains(&key.as_str()) || node.extra.get(key).is_some_and(String::is_empty);
    if beyond || options.packet_encoding.is_some() || node.extra.keys().any(known) {
        return None;
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let secret = |value: &Option<Secret>| value.as_ref().map(|s| s.expose().to_owned()).unwrap_or_default();
    let (net, kind, host, path) = match &options.transport {
        Transport::Tcp { header_type, host, path } => ("tcp", text(header_type), text(host), text(path)),
        Transport::Ws { host, path, early_data, early_data_header } => {
            if early_data.is_none() && early_data_header.is_some() {
                return None;
            }
            let path = join_early_data(path.as_deref(), *early_data, early_data_header.as_deref());
            ("ws", String::new(), text(host), path)
        }
        Transport::Httpupgrade { host, path, early_data } => {
            ("httpupgrade", String::new(), text(host), join_early_data(path.as_deref(), *early_data, None))
        }
        Transport::Grpc { service_name, mode, authority } => ("grpc", text(mode), text(authority), text(service_name)),
        Transport::Http { host, path } => ("h2", String::new(), text(host), text(path)),
        Transport::Xhttp { host, path, mode, extra: None } => ("xhttp", text(mode), text(host), text(path)),
        Transport::Xhttp { extra: Some(_), .. } | Transport::Kcp { mtu: Some(_), .. } => {
            return None;
        }
        Transport::Kcp { header_type, seed, mtu: None } => ("kcp", text(header_type), String::new(), secret(seed)),
        Transport::Quic { quic_security, quic_key, header_type } => {
            ("quic", text(header_type), text(quic_security), secret(quic_key))
        }
        Transport::Unknown { name } => (name.as_str(), String::new(), String::new(), String::new()),
    };
    let mut map = Map::new();
    let mut set = |key: &str, value: &str| {
        map.insert(key.to_owned(), Value::String(value.to_owned()));
    };
    set("v", "2");
    set("ps", &node.name);
    set("add", &node.address);
    set("port", &node.port.to_string());
    set("id", user(&options.user));
    set("aid", &options.alter_id.to_string());
    set("scy", &options.encryption);
    set("net", net);
    let plain = matches!(
        options.transport,
        Transport::Tcp { header_type: None, .. } | Transport::Http { .. } | Transport::Ws { .. }
    );
    set("type", if kind.is_empty() && plain { "none" } else { &kind });
    set("host", &host);
    set("path", &path);
    set("tls", if tls.enabled { "tls" } else { "" });
    set("sni", tls.sni.as_deref().unwrap_or_default());
    set("alpn", &tls.alpn.join(","));
    set("fp", tls.fingerprint.as_deref().unwrap_or_default());
    if tls.insecure {
        set("insecure", "1");
    }
    for (key, value) in &node.extra {
        if !is_foreign(key) {
            set(key, value);
        }
    }
    Some(map)
}
