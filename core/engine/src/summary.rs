//! What a list shows of a node, and its fields without secrets.

use culvert_ipc::types::{NodeField, SecurityKind};
use culvert_profile::Node;
use culvert_profile::node::{Protocol, Tls, Transport};
use serde_json::Value;

/// The plain columns of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) protocol: &'static str,
    pub(crate) security: SecurityKind,
    pub(crate) transport: String,
    pub(crate) cipher: Option<String>,
    pub(crate) insecure: bool,
}

impl Summary {
    pub(crate) fn of(node: &Node) -> Self {
        let none = Tls::default();
        let tcp = Transport::default();
        let (protocol, tls, transport, cipher, quic) = match &node.protocol {
            Protocol::Vmess(o) => ("vmess", &o.tls, &o.transport, Some(&o.encryption), false),
            Protocol::Vless(o) => ("vless", &o.tls, &o.transport, None, false),
            Protocol::Shadowsocks(o) => ("shadowsocks", &none, &tcp, Some(&o.method), false),
            Protocol::Trojan(o) => ("trojan", &o.tls, &o.transport, None, false),
            Protocol::Hysteria2(o) => ("hysteria2", &o.tls, &tcp, None, true),
            Protocol::Tuic(o) => ("tuic", &o.tls, &tcp, None, true),
            Protocol::Anytls(o) => ("anytls", &o.tls, &tcp, None, false),
            Protocol::Socks(_) => ("socks", &none, &tcp, None, false),
            Protocol::Http(o) => ("http", &o.tls, &tcp, None, false),
            Protocol::Wireguard(_) => ("wireguard", &none, &tcp, None, false),
        };
        let udp_only = quic || matches!(node.protocol, Protocol::Wireguard(_));
        let security = if quic {
            SecurityKind::Quic
        } else if tls.reality.is_some() {
            SecurityKind::Reality
        } else if tls.enabled {
            SecurityKind::Tls
        } else {
            SecurityKind::None
        };
        Self {
            protocol,
            security,
            transport: if udp_only { "udp".to_owned() } else { transport_word(transport).to_owned() },
            cipher: cipher.cloned(),
            insecure: tls.insecure,
        }
    }

    pub(crate) fn security_word(&self) -> &'static str {
        match self.security {
            SecurityKind::None => "none",
            SecurityKind::Tls => "tls",
            SecurityKind::Reality => "reality",
            SecurityKind::Quic => "quic",
        }
    }

    pub(crate) fn security_of_word(word: &str) -> SecurityKind {
        match word {
            "tls" => SecurityKind::Tls,
            "reality" => SecurityKind::Reality,
            "quic" => SecurityKind::Quic,
            _ => SecurityKind::None,
        }
    }
}

fn transport_word(transport: &Transport) -> &str {
    match transport {
        Transport::Tcp { .. } => "tcp",
        Transport::Ws { .. } => "ws",
        Transport::Httpupgrade { .. } => "httpupgrade",
        Transport::Grpc { .. } => "grpc",
        Transport::Http { .. } => "http",
        Transport::Xhttp { .. } => "xhttp",
        Transport::Kcp { .. } => "mkcp",
        Transport::Quic { .. } => "quic",
        Transport::Unknown { name } => name,
    }
}

/// Choices that a person should know to be weak.
pub(crate) fn weak_choices(node: &Node) -> Vec<String> {
    let mut choices = Vec::new();
    let summary = Summary::of(node);
    if summary.insecure {
        choices.push("accepts any certificate".to_owned());
    }
    match &node.protocol {
        Protocol::Vmess(options) if options.alter_id > 0 => {
            choices.push("uses VMess's old header (alterId above 0)".to_owned());
        }
        Protocol::Vmess(options)
            if summary.security == SecurityKind::None && matches!(options.encryption.as_str(), "none" | "zero") =>
        {
            choices.push("does not encrypt what it carries".to_owned());
        }
        Protocol::Vless(options) if summary.security == SecurityKind::None && options.encryption == "none" => {
            choices.push("does not encrypt what it carries".to_owned());
        }
        Protocol::Shadowsocks(options) if matches!(options.method.as_str(), "none" | "plain") => {
            choices.push("does not encrypt what it carries".to_owned());
        }
        Protocol::Trojan(_) if summary.security == SecurityKind::None => {
            choices.push("sends its password in the clear".to_owned());
        }
        Protocol::Socks(_) | Protocol::Http(_) if summary.security == SecurityKind::None => {
            choices.push("does not encrypt what it carries".to_owned());
        }
        Protocol::Vmess(_)
        | Protocol::Vless(_)
        | Protocol::Shadowsocks(_)
        | Protocol::Trojan(_)
        | Protocol::Hysteria2(_)
        | Protocol::Tuic(_)
        | Protocol::Anytls(_)
        | Protocol::Socks(_)
        | Protocol::Http(_)
        | Protocol::Wireguard(_) => {}
    }
    choices
}

/// Fields whose value may be shown. All others are taken for secrets: a field that a later version
/// adds stays hidden until it is named here.
const PLAIN: &[&str] = &[
    "name",
    "address",
    "port",
    "protocol",
    "unsupported",
    "unsupported_kind",
    "alter_id",
    "encryption",
    "method",
    "flow",
    "packet_encoding",
    "version",
    "udp_over_tcp",
    "ports",
    "up_mbps",
    "down_mbps",
    "congestion_control",
    "udp_relay_mode",
    "zero_rtt",
    "mtu",
    "public_key",
    "local_address",
    "tls.enabled",
    "tls.sni",
    "tls.alpn",
    "tls.fingerprint",
    "tls.insecure",
    "tls.pin_sha256",
    "tls.ech",
    "tls.disable_sni",
    "tls.reality.public_key",
    "tls.reality.spider_x",
    "tls.reality.mldsa65_verify",
    "transport.type",
    "transport.name",
    "transport.header_type",
    "transport.host",
    "transport.path",
    "transport.early_data",
    "transport.early_data_header",
    "transport.service_name",
    "transport.mode",
    "transport.authority",
    "transport.mtu",
    "transport.quic_security",
    "obfs.type",
    "obfs.min_packet_size",
    "obfs.max_packet_size",
    "plugin.name",
    "plugin.opts.obfs",
    "plugin.opts.mode",
    "plugin.opts.host",
    "plugin.opts.obfs-host",
    "plugin.opts.path",
    "plugin.opts.tls",
    "plugin.opts.mux",
    "plugin.opts.version",
];

/// Every field of a node by its path; secrets without their value.
pub(crate) fn fields(node: &Node) -> Vec<NodeField> {
    let mut fields = Vec::new();
    if let Ok(value) = serde_json::to_value(node) {
        flatten(String::new(), value, &mut fields);
    }
    fields
}

fn flatten(path: String, value: Value, fields: &mut Vec<NodeField>) {
    let text = match value {
        Value::Null => return,
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(path, value, fields);
            }
            return;
        }
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), ToOwned::to_owned))
            .collect::<Vec<_>>()
            .join(", "),
        Value::String(text) => text,
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    // A VLESS encryption string carries keys; the plain word does not.
    let plain = PLAIN.contains(&path.as_str()) && !(path == "encryption" && text.len() > 32);
    if text.is_empty() {
        return;
    }
    fields.push(NodeField { value: plain.then_some(text), secret: !plain, path });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_among_the_fields() {
        let texts = [
            r#"{"name":"a","address":"h","port":1,"protocol":"vmess","uuid":"SECRET","uuid_raw":"SECRET","encryption":"auto","transport":{"type":"mkcp","seed":"SECRET"}}"#,
            r#"{"name":"a","address":"h","port":1,"protocol":"vless","uuid":"SECRET","encryption":"mlkem768x25519plus.native.0rtt.SECRET-SECRET-SECRET","tls":{"enabled":true,"reality":{"public_key":"k","short_id":"SECRET"}}}"#,
            r#"{"name":"a","address":"h","port":1,"protocol":"shadowsocks","method":"aes-128-gcm","password":"SECRET","plugin":{"name":"shadow-tls","opts":{"password":"SECRET"}},"extra":{"token":"SECRET"}}"#,
            r#"{"name":"a","address":"h","port":1,"protocol":"hysteria2","password":"SECRET","obfs":{"type":"salamander","password":"SECRET"}}"#,
            r#"{"name":"a","address":"h","port":1,"protocol":"tuic","uuid":"SECRET","password":"SECRET"}"#,
            r#"{"name":"a","address":"h","port":1,"protocol":"socks","version":"5","username":"SECRET","password":"SECRET"}"#,
            r#"{"name":"a","address":"h","port":1,"protocol":"wireguard","private_key":"SECRET","public_key":"k","preshared_key":"SECRET"}"#,
        ];
        for text in texts {
            let node: Node = serde_json::from_str(text).unwrap();
            let fields = fields(&node);
            assert!(fields.iter().any(|field| field.secret), "{text}");
            assert!(!format!("{fields:?}").contains("SECRET"), "{fields:?}");
            assert!(fields.iter().any(|field| field.path == "address" && field.value.as_deref() == Some("h")));
        }
    }
}
