//! A node as a share link.

use indexmap::IndexMap;
use serde_json::Value;

use super::{is_foreign, vmess};
use crate::framing::join_early_data;
use crate::json;
use crate::node::{
    Anytls, Http, Hysteria2, Node, Plugin, Protocol, Secret, Shadowsocks, Socks, Tls, Transport, Trojan, Tuic, UserId,
    Vless, Wireguard,
};
use crate::text::escape;

/// The node as a link that [`crate::parse_link`] reads back to an equal node.
pub fn link(node: &Node) -> String {
    match &node.protocol {
        Protocol::Vmess(options) => vmess::link(node, options),
        Protocol::Vless(options) => vless(node, options),
        Protocol::Trojan(options) => trojan(node, options),
        Protocol::Shadowsocks(options) => shadowsocks(node, options),
        Protocol::Hysteria2(options) => hysteria2(node, options),
        Protocol::Tuic(options) => tuic(node, options),
        Protocol::Anytls(options) => anytls(node, options),
        Protocol::Socks(options) => socks(node, options),
        Protocol::Http(options) => http(node, options),
        Protocol::Wireguard(options) => wireguard(node, options),
    }
}

/// Parameters of a link in the order of writing.
pub(super) struct Parameters<'a> {
    extra: &'a IndexMap<String, String>,
    text: String,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(node: &'a Node) -> Self {
        Self { extra: &node.extra, text: String::new() }
    }

    fn push(&mut self, key: &str, value: &str) {
        self.text.push(if self.text.is_empty() { '?' } else { '&' });
        self.text.push_str(&escape(key));
        self.text.push('=');
        self.text.push_str(&escape(value));
    }

    /// Writes a parameter, unless the node's `extra` holds it.
    pub(super) fn add(&mut self, key: &str, value: &str) {
        if !self.extra.contains_key(key) {
            self.push(key, value);
        }
    }

    pub(super) fn add_some(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.add(key, value);
        }
    }

    fn add_yes(&mut self, key: &str, on: bool) {
        if on {
            self.add(key, "1");
        }
    }

    fn add_number<N: ToString>(&mut self, key: &str, number: Option<N>) {
        if let Some(number) = number {
            self.add(key, &number.to_string());
        }
    }

    /// Writes `extra` behind the others.
    pub(super) fn finish(mut self) -> String {
        for (key, value) in self.extra {
            if !is_foreign(key) {
                self.push(key, value);
            }
        }
        self.text
    }
}

/// Joins the parts of a link.
pub(super) fn join(scheme: &str, user: &str, node: &Node, parameters: Parameters<'_>) -> String {
    let at = if user.is_empty() { "" } else { "@" };
    let host = if node.address.contains(':') { format!("[{}]", node.address) } else { node.address.clone() };
    let name = if node.name.is_empty() { String::new() } else { format!("#{}", escape(&node.name)) };
    format!("{scheme}://{user}{at}{host}:{}{}{name}", node.port, parameters.finish())
}

/// A UUID, or the text that stands for one.
pub(super) fn user(user: &UserId) -> &str {
    user.uuid_raw.as_ref().unwrap_or(&user.uuid).expose()
}

/// TLS options without a word on whether TLS is on.
fn tls_options(parameters: &mut Parameters<'_>, tls: &Tls, insecure: &str) {
    parameters.add_some("sni", tls.sni.as_deref());
    parameters.add_some("fp", tls.fingerprint.as_deref());
    parameters.add_some("alpn", Some(&tls.alpn.join(",")));
    parameters.add_yes(insecure, tls.insecure);
    parameters.add_some("ech", tls.ech.as_deref());
    parameters.add_yes("disable_sni", tls.disable_sni);
}

/// `security` and all that belongs to it.
pub(super) fn security(parameters: &mut Parameters<'_>, tls: &Tls) {
    let word = match (&tls.reality, tls.enabled) {
        (Some(_), _) => "reality",
        (None, true) => "tls",
        (None, false) => "none",
    };
    parameters.add("security", word);
    tls_options(parameters, tls, "allowInsecure");
    parameters.add_some("pcs", tls.pin_sha256.as_deref());
    if let Some(reality) = &tls.reality {
        parameters.add("pbk", &reality.public_key);
        parameters.add_some("sid", Some(reality.short_id.expose()));
        parameters.add_some("spx", reality.spider_x.as_deref());
        parameters.add_some("pqv", reality.mldsa65_verify.as_deref());
    }
}

/// `type` and all that belongs to it.
pub(super) fn transport(parameters: &mut Parameters<'_>, transport: &Transport) {
    match transport {
        Transport::Tcp { header_type, host, path } => {
            parameters.add("type", "tcp");
            parameters.add_some("headerType", header_type.as_deref());
            parameters.add_some("host", host.as_deref());
            parameters.add_some("path", path.as_deref());
        }
        Transport::Ws { host, path, early_data, early_data_header } => {
            parameters.add("type", "ws");
            parameters.add_some("host", host.as_deref());
            parameters.add_some("path", Some(&join_early_data(path.as_deref(), *early_data, None)));
            parameters.add_some("eh", early_data_header.as_deref());
        }
        Transport::Httpupgrade { host, path, early_data } => {
            parameters.add("type", "httpupgrade");
            parameters.add_some("host", host.as_deref());
            parameters.add_some("path", Some(&join_early_data(path.as_deref(), *early_data, None)));
        }
        Transport::Grpc { service_name, mode, authority } => {
            parameters.add("type", "grpc");
            parameters.add("serviceName", service_name.as_deref().unwrap_or_default());
            parameters.add_some("mode", mode.as_deref());
            parameters.add_some("authority", authority.as_deref());
        }
        Transport::Http { host, path } => {
            parameters.add("type", "http");
            parameters.add_some("host", host.as_deref());
            parameters.add_some("path", path.as_deref());
        }
        Transport::Xhttp { host, path, mode, extra } => {
            parameters.add("type", "xhttp");
            parameters.add_some("host", host.as_deref());
            parameters.add_some("path", path.as_deref());
            parameters.add_some("mode", mode.as_deref());
            parameters.add_some("extra", extra.as_ref().map(Value::to_string).as_deref());
        }
        Transport::Kcp { header_type, seed, mtu } => {
            parameters.add("type", "kcp");
            parameters.add_some("headerType", header_type.as_deref());
            parameters.add_some("seed", seed.as_ref().map(Secret::expose));
            parameters.add_number("mtu", *mtu);
        }
        Transport::Quic { quic_security, quic_key, header_type } => {
            parameters.add("type", "quic");
            parameters.add_some("quicSecurity", quic_security.as_deref());
            parameters.add_some("key", quic_key.as_ref().map(Secret::expose));
            parameters.add_some("headerType", header_type.as_deref());
        }
        Transport::Unknown { name } => parameters.add("type", name),
    }
}

fn vless(node: &Node, options: &Vless) -> String {
    let mut p = Parameters::new(node);
    p.add("encryption", &options.encryption);
    p.add_some("flow", options.flow.as_deref());
    security(&mut p, &options.tls);
    transport(&mut p, &options.transport);
    p.add_some("packetEncoding", options.packet_encoding.as_deref());
    join("vless", &escape(user(&options.user)), node, p)
}

fn trojan(node: &Node, options: &Trojan) -> String {
    let mut p = Parameters::new(node);
    security(&mut p, &options.tls);
    transport(&mut p, &options.transport);
    join("trojan", &escape(options.password.expose()), node, p)
}

fn anytls(node: &Node, options: &Anytls) -> String {
    let mut p = Parameters::new(node);
    security(&mut p, &options.tls);
    join("anytls", &escape(options.password.expose()), node, p)
}

fn shadowsocks(node: &Node, options: &Shadowsocks) -> String {
    use base64::Engine as _;
    let (method, password) = (options.method.as_str(), options.password.expose());
    let user = if method.starts_with("2022-") {
        format!("{method}:{}", escape(password))
    } else {
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("{method}:{password}"))
    };
    let mut p = Parameters::new(node);
    p.add_some("plugin", options.plugin.as_ref().map(plugin).as_deref());
    p.add_yes("uot", options.udp_over_tcp);
    join("ss", &user, node, p)
}

/// A plugin with its options, as SIP003 has them.
pub(super) fn plugin(plugin: &Plugin) -> String {
    let options = plugin_options(plugin);
    if options.is_empty() { escaped(&plugin.name) } else { format!("{};{options}", escaped(&plugin.name)) }
}

/// The options alone.
pub(super) fn plugin_options(plugin: &Plugin) -> String {
    let option = |(key, value): (&String, &Value)| match (value, json::text(value)) {
        (Value::Bool(true), _) => Some(escaped(key)),
        (_, text) => text.map(|text| format!("{}={}", escaped(key), escaped(&text))),
    };
    plugin.opts.iter().filter_map(option).collect::<Vec<_>>().join(";")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace(';', "\\;").replace('=', "\\=")
}

fn hysteria2(node: &Node, options: &Hysteria2) -> String {
    let mut p = Parameters::new(node);
    if let Some(obfs) = &options.obfs {
        p.add("obfs", &obfs.kind);
        p.add_some("obfs-password", Some(obfs.password.expose()));
        p.add_number("minPacketSize", obfs.min_packet_size);
        p.add_number("maxPacketSize", obfs.max_packet_size);
    }
    p.add_some("mport", options.ports.as_deref());
    tls_options(&mut p, &options.tls, "insecure");
    p.add_some("pinSHA256", options.tls.pin_sha256.as_deref());
    p.add_number("upmbps", options.up_mbps);
    p.add_number("downmbps", options.down_mbps);
    join("hysteria2", &escape(options.password.expose()), node, p)
}

fn tuic(node: &Node, options: &Tuic) -> String {
    let mut p = Parameters::new(node);
    p.add_some("congestion_control", options.congestion_control.as_deref());
    p.add_some("udp_relay_mode", options.udp_relay_mode.as_deref());
    p.add_yes("reduce_rtt", options.zero_rtt);
    tls_options(&mut p, &options.tls, "allow_insecure");
    p.add_some("pinSHA256", options.tls.pin_sha256.as_deref());
    let user = format!("{}:{}", escape(options.user.uuid.expose()), escape(options.password.expose()));
    join("tuic", &user, node, p)
}

/// `user:password`, each escaped.
fn credentials(username: Option<&str>, password: Option<&Secret>) -> String {
    match (username, password) {
        (None, None) => String::new(),
        (user, None) => escape(user.unwrap_or_default()),
        (user, Some(password)) => format!("{}:{}", escape(user.unwrap_or_default()), escape(password.expose())),
    }
}

fn socks(node: &Node, options: &Socks) -> String {
    let scheme = match options.version.as_str() {
        "4" => "socks4",
        "4a" => "socks4a",
        _ => "socks5",
    };
    let user = credentials(options.username.as_deref(), options.password.as_ref());
    join(scheme, &user, node, Parameters::new(node))
}

fn http(node: &Node, options: &Http) -> String {
    let mut p = Parameters::new(node);
    if options.tls.enabled {
        tls_options(&mut p, &options.tls, "insecure");
        p.add_some("pinSHA256", options.tls.pin_sha256.as_deref());
    }
    let user = credentials(options.username.as_deref(), options.password.as_ref());
    join(if options.tls.enabled { "https" } else { "http" }, &user, node, p)
}

fn wireguard(node: &Node, options: &Wireguard) -> String {
    let mut p = Parameters::new(node);
    p.add("publickey", &options.public_key);
    p.add_some("presharedkey", options.preshared_key.as_ref().map(Secret::expose));
    p.add_some("address", Some(&options.local_address.join(",")));
    p.add_some("reserved", options.reserved.map(|[a, b, c]| format!("{a},{b},{c}")).as_deref());
    p.add_number("mtu", options.mtu);
    join("wireguard", &escape(options.private_key.expose()), node, p)
}
