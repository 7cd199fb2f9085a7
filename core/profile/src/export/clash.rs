//! Clash (mihomo) YAML: a file of `proxies`, as a provider serves it.

use serde_json::Value;

use super::Export;
use super::entry::{Entry, Names};
use super::yaml;
use crate::node::{Node, Plugin, Protocol, Secret, Shadowsocks, Tls, Transport, Wireguard};

/// The nodes as a YAML text with `proxies`.
pub fn clash(nodes: &[Node]) -> Export<String> {
    let mut text = "proxies:\n".to_owned();
    let mut left_out = Vec::new();
    let mut names = Names::new();
    let mut any = false;
    for (at, node) in nodes.iter().enumerate() {
        match proxy(node) {
            Ok(mut entry) => {
                let mut named = Entry::default();
                named.set("name", names.unique(node));
                named.0.append(&mut entry.0);
                text.push_str("  - ");
                yaml::mapping(&named.0, 4, &mut text);
                any = true;
            }
            Err(reason) => left_out.push((at, reason)),
        }
    }
    if !any {
        text = "proxies: []\n".to_owned();
    }
    Export { content: text, left_out }
}

fn proxy(node: &Node) -> Result<Entry, String> {
    let mut e = Entry::default();
    let kind = match &node.protocol {
        Protocol::Vmess(_) => "vmess",
        Protocol::Vless(_) => "vless",
        Protocol::Shadowsocks(_) => "ss",
        Protocol::Trojan(_) => "trojan",
        Protocol::Hysteria2(_) => "hysteria2",
        Protocol::Tuic(_) => "tuic",
        Protocol::Anytls(_) => "anytls",
        Protocol::Socks(_) => "socks5",
        Protocol::Http(_) => "http",
        Protocol::Wireguard(_) => "wireguard",
    };
    e.set("type", kind);
    e.set("server", node.address.clone());
    e.set("port", node.port);
    match &node.protocol {
        Protocol::Vmess(o) => {
            e.set("uuid", o.user.uuid.expose());
            e.set("alterId", o.alter_id);
            e.set("cipher", o.encryption.clone());
            e.set_text("packet-encoding", o.packet_encoding.as_ref());
            tls(&mut e, &o.tls, "servername", true)?;
            transport(&mut e, &o.transport)?;
        }
        Protocol::Vless(o) => {
            e.set("uuid", o.user.uuid.expose());
            e.set_some("encryption", Some(o.encryption.clone()).filter(|text| text != "none"));
            e.set_text("flow", o.flow.as_ref());
            e.set_text("packet-encoding", o.packet_encoding.as_ref());
            tls(&mut e, &o.tls, "servername", true)?;
            transport(&mut e, &o.transport)?;
        }
        Protocol::Trojan(o) => {
            if !o.tls.enabled {
                return Err("Clash knows no Trojan without TLS".to_owned());
            }
            e.set("password", o.password.expose());
            tls(&mut e, &o.tls, "sni", false)?;
            transport(&mut e, &o.transport)?;
        }
        Protocol::Shadowsocks(o) => shadowsocks(&mut e, o),
        Protocol::Hysteria2(o) => {
            e.set_text("ports", o.ports.as_ref());
            e.set_secret("password", Some(&o.password));
            if let Some(obfs) = &o.obfs {
                e.set("obfs", obfs.kind.clone());
                e.set("obfs-password", obfs.password.expose());
                e.set_some("obfs-min-packet-size", obfs.min_packet_size);
                e.set_some("obfs-max-packet-size", obfs.max_packet_size);
            }
            e.set_some("up", o.up_mbps.map(|n| format!("{n} Mbps")));
            e.set_some("down", o.down_mbps.map(|n| format!("{n} Mbps")));
            tls(&mut e, &o.tls, "sni", false)?;
        }
        Protocol::Tuic(o) => {
            e.set("uuid", o.user.uuid.expose());
            e.set("password", o.password.expose());
            e.set_text("congestion-controller", o.congestion_control.as_ref());
            e.set_text("udp-relay-mode", o.udp_relay_mode.as_ref());
            e.set_yes("reduce-rtt", o.zero_rtt);
            tls(&mut e, &o.tls, "sni", false)?;
        }
        Protocol::Anytls(o) => {
            if !o.tls.enabled {
                return Err("Clash knows no AnyTLS without TLS".to_owned());
            }
            e.set("password", o.password.expose());
            tls(&mut e, &o.tls, "sni", false)?;
        }
        Protocol::Socks(o) => {
            if o.version != "5" {
                return Err("Clash knows SOCKS 5 only".to_owned());
            }
            e.set_text("username", o.username.as_ref());
            e.set_secret("password", o.password.as_ref());
        }
        Protocol::Http(o) => {
            e.set_text("username", o.username.as_ref());
            e.set_secret("password", o.password.as_ref());
            tls(&mut e, &o.tls, "sni", true)?;
        }
        Protocol::Wireguard(o) => wireguard(&mut e, o),
    }
    e.restore(node, "clash:");
    if !matches!(node.protocol, Protocol::Http(_)) && !e.0.contains_key("udp") {
        e.set("udp", true);
    }
    Ok(e)
}

fn tls(e: &mut Entry, tls: &Tls, sni: &str, switch: bool) -> Result<(), String> {
    if switch && tls.enabled {
        e.set("tls", true);
    }
    e.set_text(sni, tls.sni.as_ref());
    if !tls.alpn.is_empty() {
        e.set("alpn", tls.alpn.clone());
    }
    // REALITY is refused without a fingerprint.
    let fallback = tls.reality.as_ref().map(|_| "chrome".to_owned());
    e.set_text("client-fingerprint", tls.fingerprint.clone().or(fallback).as_ref());
    e.set_yes("skip-cert-verify", tls.insecure);
    e.set_text("fingerprint", tls.pin_sha256.as_ref());
    e.set_yes("disable-sni", tls.disable_sni);
    if let Some(config) = &tls.ech {
        let mut ech = Entry::default();
        ech.set("enable", true);
        ech.set("config", config.clone());
        e.set_entry("ech-opts", ech);
    }
    if let Some(reality) = &tls.reality {
        if reality.mldsa65_verify.is_some() {
            return Err("Clash has no ML-DSA verification of REALITY".to_owned());
        }
        let mut opts = Entry::default();
        opts.set("public-key", reality.public_key.clone());
        opts.set_secret("short-id", Some(&reality.short_id));
        e.set_entry("reality-opts", opts);
    }
    Ok(())
}

fn headers(host: Option<&String>) -> Entry {
    let mut headers = Entry::default();
    headers.set_text("Host", host);
    headers
}

fn transport(e: &mut Entry, transport: &Transport) -> Result<(), String> {
    let list = |text: &String| -> Value { text.split(',').map(str::to_owned).collect::<Vec<_>>().into() };
    let mut opts = Entry::default();
    match transport {
        Transport::Tcp { header_type, host, path } if header_type.as_deref() == Some("http") => {
            e.set("network", "http");
            let mut headers = Entry::default();
            headers.set_some("Host", host.as_ref().map(list));
            opts.set_some("path", path.as_ref().map(list));
            opts.set_entry("headers", headers);
            e.set_entry("http-opts", opts);
        }
        Transport::Tcp { .. } => {}
        Transport::Ws { host, path, early_data, early_data_header } => {
            e.set("network", "ws");
            opts.set_text("path", path.as_ref());
            opts.set_entry("headers", headers(host.as_ref()));
            opts.set_some("max-early-data", *early_data);
            let header = early_data_header.clone();
            opts.set_some("early-data-header-name", header.or(early_data.map(|_| "Sec-WebSocket-Protocol".to_owned())));
            e.set_entry("ws-opts", opts);
        }
        Transport::Httpupgrade { host, path, early_data } => {
            e.set("network", "ws");
            opts.set_text("path", path.as_ref());
            opts.set_entry("headers", headers(host.as_ref()));
            opts.set("v2ray-http-upgrade", true);
            opts.set_some("max-early-data", *early_data);
            e.set_entry("ws-opts", opts);
        }
        Transport::Grpc { service_name, mode, authority } => {
            if mode.as_deref() == Some("multi") || authority.is_some() {
                return Err("Clash's gRPC has no multi mode and no authority".to_owned());
            }
            e.set("network", "grpc");
            opts.set_text("grpc-service-name", service_name.as_ref());
            e.set_entry("grpc-opts", opts);
        }
        Transport::Http { host, path } => {
            e.set("network", "h2");
            opts.set_some("host", host.as_ref().map(list));
            opts.set_text("path", path.as_ref());
            e.set_entry("h2-opts", opts);
        }
        Transport::Xhttp { host, path, mode, extra } => {
            if extra.as_ref().is_some_and(|extra| extra.get("downloadSettings").is_some()) {
                return Err("Clash spells the extra settings of XHTTP in another way".to_owned());
            }
            e.set("network", "xhttp");
            opts.set_text("path", path.as_ref());
            opts.set_text("host", host.as_ref());
            opts.set_text("mode", mode.as_ref());
            if let Some(Value::Object(map)) = extra {
                opts.0.extend(map.clone());
            }
            e.set_entry("xhttp-opts", opts);
        }
        Transport::Kcp { .. } => return Err("Clash has no mKCP".to_owned()),
        Transport::Quic { .. } => return Err("Clash has no QUIC transport".to_owned()),
        Transport::Unknown { name } => return Err(format!("unknown transport {name}")),
    }
    Ok(())
}

fn shadowsocks(e: &mut Entry, o: &Shadowsocks) {
    e.set("cipher", o.method.clone());
    e.set("password", o.password.expose());
    e.set_yes("udp-over-tcp", o.udp_over_tcp);
    if let Some(plugin) = &o.plugin {
        let obfs = plugin.name == "obfs-local";
        e.set("plugin", if obfs { "obfs" } else { plugin.name.as_str() });
        e.set_entry("plugin-opts", plugin_opts(plugin, obfs));
    }
}

fn plugin_opts(plugin: &Plugin, obfs: bool) -> Entry {
    let mut opts = Entry::default();
    for (key, value) in &plugin.opts {
        let key = match (obfs, key.as_str()) {
            (true, "obfs") => "mode",
            (true, "obfs-host") => "host",
            (true, "obfs-uri") => "path",
            (true | false, key) => key,
        };
        opts.set(key, value.clone());
    }
    opts
}

fn wireguard(e: &mut Entry, o: &Wireguard) {
    let of = |six: bool| o.local_address.iter().find(|address| address.contains(':') == six);
    e.set_text("ip", of(false));
    e.set_text("ipv6", of(true));
    e.set("private-key", o.private_key.expose());
    e.set("public-key", o.public_key.clone());
    e.set_secret("pre-shared-key", o.preshared_key.as_ref().filter(|key: &&Secret| !key.is_empty()));
    e.set_some("reserved", o.reserved.map(|bytes| bytes.to_vec()));
    e.set_some("mtu", o.mtu);
}
