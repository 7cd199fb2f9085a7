//! sing-box JSON: outbounds, and endpoints for WireGuard.

use serde_json::{Map, Value};

use super::Export;
use super::entry::{Entry, Names};
use super::link::plugin_options;
use crate::node::{Node, Protocol, Tls, Transport, Wireguard};

/// The nodes as the `outbounds` and `endpoints` of a configuration.
pub fn sing_box(nodes: &[Node]) -> Export<Value> {
    let (mut outbounds, mut endpoints, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = Names::new();
    for (at, node) in nodes.iter().enumerate() {
        match entry(node) {
            Ok(mut entry) => {
                let wireguard = matches!(node.protocol, Protocol::Wireguard(_));
                entry.set("tag", names.unique(node));
                if wireguard { &mut endpoints } else { &mut outbounds }.push(Value::Object(entry.0));
            }
            Err(reason) => left_out.push((at, reason)),
        }
    }
    let mut map = Map::new();
    map.insert("outbounds".to_owned(), outbounds.into());
    if !endpoints.is_empty() {
        map.insert("endpoints".to_owned(), endpoints.into());
    }
    Export { content: Value::Object(map), left_out }
}

fn entry(node: &Node) -> Result<Entry, String> {
    let mut e = Entry::default();
    let kind = match &node.protocol {
        Protocol::Vmess(_) => "vmess",
        Protocol::Vless(_) => "vless",
        Protocol::Shadowsocks(_) => "shadowsocks",
        Protocol::Trojan(_) => "trojan",
        Protocol::Hysteria2(_) => "hysteria2",
        Protocol::Tuic(_) => "tuic",
        Protocol::Anytls(_) => "anytls",
        Protocol::Socks(_) => "socks",
        Protocol::Http(_) => "http",
        Protocol::Wireguard(_) => "wireguard",
    };
    e.set("type", kind);
    // The tag is set by the caller; its place is behind the type.
    e.set("tag", "");
    if let Protocol::Wireguard(options) = &node.protocol {
        wireguard(&mut e, node, options);
        return Ok(e);
    }
    e.set("server", node.address.clone());
    e.set("server_port", node.port);
    match &node.protocol {
        Protocol::Vmess(o) => {
            e.set("uuid", o.user.uuid.expose());
            e.set("security", o.encryption.clone());
            e.set("alter_id", o.alter_id);
            e.set_text("packet_encoding", o.packet_encoding.as_ref());
            tls(&mut e, &o.tls)?;
            transport(&mut e, &o.transport)?;
        }
        Protocol::Vless(o) => {
            if o.encryption != "none" {
                return Err("sing-box has no VLESS encryption".to_owned());
            }
            e.set("uuid", o.user.uuid.expose());
            // sing-box never blocks UDP port 443, which is all that the suffix asks for.
            e.set_some("flow", o.flow.as_ref().map(|flow| flow.trim_end_matches("-udp443").to_owned()));
            e.set_text("packet_encoding", o.packet_encoding.as_ref());
            tls(&mut e, &o.tls)?;
            transport(&mut e, &o.transport)?;
        }
        Protocol::Trojan(o) => {
            e.set("password", o.password.expose());
            tls(&mut e, &o.tls)?;
            transport(&mut e, &o.transport)?;
        }
        Protocol::Shadowsocks(o) => {
            e.set("method", o.method.clone());
            e.set("password", o.password.expose());
            if let Some(plugin) = &o.plugin {
                e.set("plugin", plugin.name.clone());
                e.set_text("plugin_opts", Some(&plugin_options(plugin)));
            }
            e.set_yes("udp_over_tcp", o.udp_over_tcp);
        }
        Protocol::Hysteria2(o) => {
            if let Some(ports) = &o.ports {
                // sing-box writes ranges only, with a colon.
                let range =
                    |item: &str| if item.contains('-') { item.replace('-', ":") } else { format!("{item}:{item}") };
                e.set("server_ports", ports.split(',').map(range).collect::<Vec<_>>());
            }
            e.set_secret("password", Some(&o.password));
            if let Some(obfs) = &o.obfs {
                if obfs.kind != "salamander" {
                    return Err(format!("sing-box has no obfuscation {}", obfs.kind));
                }
                let mut opts = Entry::default();
                opts.set("type", obfs.kind.clone());
                opts.set("password", obfs.password.expose());
                e.set_entry("obfs", opts);
            }
            e.set_some("up_mbps", o.up_mbps);
            e.set_some("down_mbps", o.down_mbps);
            tls(&mut e, &o.tls)?;
        }
        Protocol::Tuic(o) => {
            e.set("uuid", o.user.uuid.expose());
            e.set("password", o.password.expose());
            e.set_text("congestion_control", o.congestion_control.as_ref());
            e.set_text("udp_relay_mode", o.udp_relay_mode.as_ref());
            e.set_yes("zero_rtt_handshake", o.zero_rtt);
            tls(&mut e, &o.tls)?;
        }
        Protocol::Anytls(o) => {
            e.set("password", o.password.expose());
            tls(&mut e, &o.tls)?;
        }
        Protocol::Socks(o) => {
            e.set("version", o.version.clone());
            e.set_text("username", o.username.as_ref());
            e.set_secret("password", o.password.as_ref());
        }
        Protocol::Http(o) => {
            e.set_text("username", o.username.as_ref());
            e.set_secret("password", o.password.as_ref());
            tls(&mut e, &o.tls)?;
        }
        Protocol::Wireguard(_) => {}
    }
    e.restore(node, "sing-box:");
    Ok(e)
}

fn tls(e: &mut Entry, tls: &Tls) -> Result<(), String> {
    if !tls.enabled {
        return Ok(());
    }
    if tls.pin_sha256.is_some() {
        return Err("sing-box pins keys, not certificates".to_owned());
    }
    let mut t = Entry::default();
    t.set("enabled", true);
    t.set_text("server_name", tls.sni.as_ref());
    t.set_yes("insecure", tls.insecure);
    t.set_yes("disable_sni", tls.disable_sni);
    if !tls.alpn.is_empty() {
        t.set("alpn", tls.alpn.clone());
    }
    // REALITY is refused without a fingerprint.
    let fallback = tls.reality.as_ref().map(|_| "chrome".to_owned());
    if let Some(fingerprint) = tls.fingerprint.clone().or(fallback) {
        let mut utls = Entry::default();
        utls.set("enabled", true);
        utls.set("fingerprint", fingerprint);
        t.set_entry("utls", utls);
    }
    if let Some(config) = &tls.ech {
        let mut ech = Entry::default();
        ech.set("enabled", true);
        ech.set(
            "config",
            vec!["-----BEGIN ECH CONFIGS-----".to_owned(), config.clone(), "-----END ECH CONFIGS-----".to_owned()],
        );
        t.set_entry("ech", ech);
    }
    if let Some(reality) = &tls.reality {
        if reality.mldsa65_verify.is_some() {
            return Err("sing-box has no ML-DSA verification of REALITY".to_owned());
        }
        let mut r = Entry::default();
        r.set("enabled", true);
        r.set("public_key", reality.public_key.clone());
        r.set_secret("short_id", Some(&reality.short_id));
        t.set_entry("reality", r);
    }
    e.set_entry("tls", t);
    Ok(())
}

fn transport(e: &mut Entry, transport: &Transport) -> Result<(), String> {
    let mut t = Entry::default();
    match transport {
        Transport::Tcp { header_type, .. } if header_type.as_deref() == Some("http") => {
            return Err("sing-box has no fake HTTP header on TCP".to_owned());
        }
        Transport::Tcp { .. } => {}
        Transport::Ws { host, path, early_data, early_data_header } => {
            t.set("type", "ws");
            t.set_text("path", path.as_ref());
            let mut headers = Entry::default();
            headers.set_text("Host", host.as_ref());
            t.set_entry("headers", headers);
            t.set_some("max_early_data", *early_data);
            let header = early_data_header.clone();
            t.set_some("early_data_header_name", header.or(early_data.map(|_| "Sec-WebSocket-Protocol".to_owned())));
        }
        Transport::Httpupgrade { host, path, early_data: _ } => {
            t.set("type", "httpupgrade");
            t.set_text("host", host.as_ref());
            t.set_text("path", path.as_ref());
        }
        Transport::Grpc { service_name, mode, authority } => {
            if mode.as_deref() == Some("multi") || authority.is_some() {
                return Err("sing-box's gRPC has no multi mode and no authority".to_owned());
            }
            t.set("type", "grpc");
            t.set_text("service_name", service_name.as_ref());
        }
        Transport::Http { host, path } => {
            t.set("type", "http");
            t.set_some("host", host.as_ref().map(|host| host.split(',').map(str::to_owned).collect::<Vec<_>>()));
            t.set_text("path", path.as_ref());
        }
        Transport::Xhttp { .. } => return Err("sing-box has no XHTTP".to_owned()),
        Transport::Kcp { .. } => return Err("sing-box has no mKCP".to_owned()),
        Transport::Quic { .. } => return Err("sing-box has another QUIC transport".to_owned()),
        Transport::Unknown { name } => return Err(format!("unknown transport {name}")),
    }
    e.set_entry("transport", t);
    Ok(())
}

fn wireguard(e: &mut Entry, node: &Node, o: &Wireguard) {
    let mut peer = Entry::default();
    peer.set("address", node.address.clone());
    peer.set("port", node.port);
    peer.set("public_key", o.public_key.clone());
    peer.set_secret("pre_shared_key", o.preshared_key.as_ref());
    peer.set("allowed_ips", vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()]);
    peer.set_some("reserved", o.reserved.map(|bytes| bytes.to_vec()));
    e.set("address", o.local_address.clone());
    e.set("private_key", o.private_key.expose());
    e.set("peers", vec![Value::Object(peer.0)]);
    e.set_some("mtu", o.mtu);
}
