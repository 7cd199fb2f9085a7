//! sing-box configurations.

use serde_json::Value;

use super::Builder;
use super::sip008::plugin_from;
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::framing::Framing;
use crate::json::Fields;
use crate::link::packet_encoding;
use crate::node::{
    Anytls, Http, Hysteria2, Node, Protocol, Secret, Shadowsocks, Socks, Tls, Transport, Trojan, Tuic, UserId, Vless,
    Vmess, Wireguard,
};
use crate::text::{name, shown, some};

/// Outbounds that are no servers.
const NO_SERVERS: &[&str] = &["selector", "urltest", "direct", "block", "dns", "fallback", "loadbalance", "bridge"];

/// Every outbound and endpoint.
pub(super) fn read(mut config: Fields, out: &mut Builder) {
    for entry in config.take_objects(&["outbounds"]).into_iter().chain(config.take_objects(&["endpoints"])) {
        outbound(entry, out);
    }
}

/// One outbound.
pub(super) fn outbound(mut f: Fields, out: &mut Builder) {
    let tag = name(&f.take(&["tag"]));
    let kind = f.take_word(&["type"]);
    if NO_SERVERS.contains(&kind.as_str()) {
        return;
    }
    let what = format!("outbound {} ({kind})", shown(&tag));
    out.entry(None, what, node(tag, &kind, f));
}

fn node(name: String, kind: &str, mut f: Fields) -> Result<Node, ParseError> {
    if kind == "wireguard" {
        return wireguard(name, f);
    }
    let known = ["vless", "vmess", "trojan", "shadowsocks", "hysteria2", "tuic", "anytls", "socks", "http"];
    if !known.contains(&kind) {
        return Err(ParseError::new(ErrorKind::Unsupported, format!("sing-box's {} is not supported", shown(kind))));
    }
    let address = fields::host(&f.take(&["server"]))?;
    let listed = f.take_list(&["server_ports"]).join(",");
    let listed = if kind == "hysteria2" && !listed.is_empty() { Some(fields::ports(&listed)?) } else { None };
    let port = match (f.take(&["server_port"]), &listed) {
        (port, Some((_, first))) if port.is_empty() => *first,
        (port, _) => fields::port(&port)?,
    };
    let tls = tls(f.take_object(&["tls"]))?;
    let password = |f: &mut Fields| match f.take(&["password"]) {
        password if password.is_empty() => Err(ParseError::new(ErrorKind::MissingCredential, "there is no password")),
        password => Ok(Secret::new(password)),
    };
    let protocol = match kind {
        "vless" => Protocol::Vless(Vless {
            user: fields::user_id(&f.take(&["uuid"]))?,
            encryption: f.take_some(&["encryption"]).unwrap_or_else(|| "none".to_owned()),
            flow: f.take_some(&["flow"]),
            tls,
            transport: transport(f.take_object(&["transport"])),
            packet_encoding: packet_encoding(&f.take(&["packet_encoding"])),
        }),
        "vmess" => Protocol::Vmess(Vmess {
            user: fields::user_id(&f.take(&["uuid"]))?,
            alter_id: f.take_number(&["alter_id"]).unwrap_or(0),
            encryption: some(f.take_word(&["security"])).unwrap_or_else(|| "auto".to_owned()),
            tls,
            transport: transport(f.take_object(&["transport"])),
            packet_encoding: packet_encoding(&f.take(&["packet_encoding"])),
        }),
        "trojan" => Protocol::Trojan(Trojan {
            password: password(&mut f)?,
            tls,
            transport: transport(f.take_object(&["transport"])),
        }),
        "shadowsocks" => {
            let method = fields::shadowsocks_method(&f.take(&["method"]));
            let password = f.take(&["password"]);
            fields::shadowsocks_password(&method, &password)?;
            let (plugin, options) = (f.take(&["plugin"]), f.take(&["plugin_opts"]));
            let nested = f.take_object(&["udp_over_tcp"]).take_yes(&["enabled"]);
            Protocol::Shadowsocks(Shadowsocks {
                method,
                password: Secret::new(password),
                plugin: (!plugin.is_empty()).then(|| plugin_from(&plugin, &options)),
                udp_over_tcp: nested || f.take_yes(&["udp_over_tcp"]),
            })
        }
        "hysteria2" => {
            let mut obfs = f.take_object(&["obfs"]);
            Protocol::Hysteria2(Hysteria2 {
                password: Secret::new(f.take(&["password"])),
                ports: listed.map(|(ports, _)| ports),
                obfs: fields::obfs(
                    &obfs.take(&["type"]),
                    &obfs.take(&["password"]),
                    obfs.take_number(&["min_packet_size"]),
                    obfs.take_number(&["max_packet_size"]),
                )?,
                tls,
                up_mbps: f.take_number(&["up_mbps"]),
                down_mbps: f.take_number(&["down_mbps"]),
            })
        }
        "tuic" => Protocol::Tuic(Tuic {
            user: UserId { uuid: Secret::new(fields::uuid(&f.take(&["uuid"]))?), uuid_raw: None },
            password: password(&mut f)?,
            congestion_control: some(f.take_word(&["congestion_control"])),
            udp_relay_mode: some(f.take_word(&["udp_relay_mode"])),
            zero_rtt: f.take_yes(&["zero_rtt_handshake"]),
            tls,
        }),
        "anytls" => Protocol::Anytls(Anytls { password: password(&mut f)?, tls }),
        "socks" => Protocol::Socks(Socks {
            version: some(f.take_word(&["version"])).unwrap_or_else(|| "5".to_owned()),
            username: f.take_some(&["username"]),
            password: f.take_some(&["password"]).map(Secret::new),
        }),
        _ => Protocol::Http(Http {
            username: f.take_some(&["username"]),
            password: f.take_some(&["password"]).map(Secret::new),
            tls,
        }),
    };
    let mut node = Node::new(name, address, port, protocol);
    keep(&mut node, "sing-box:", f);
    Ok(node)
}

/// Puts what nobody read into `extra`, under the format's name.
pub(super) fn keep(node: &mut Node, prefix: &str, f: Fields) {
    for (key, value) in f.0 {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
        };
        node.extra.insert(format!("{prefix}{key}"), text);
    }
}

fn tls(mut f: Fields) -> Result<Tls, ParseError> {
    let mut utls = f.take_object(&["utls"]);
    let mut reality = f.take_object(&["reality"]);
    let mut ech = f.take_object(&["ech"]);
    let mut tls = Tls {
        enabled: f.take_yes(&["enabled"]),
        sni: f.take_some(&["server_name"]),
        alpn: f.take_list(&["alpn"]),
        fingerprint: some(utls.take_word(&["fingerprint"])).filter(|_| utls.take_yes(&["enabled"])),
        insecure: f.take_yes(&["insecure"]),
        disable_sni: f.take_yes(&["disable_sni"]),
        ..Tls::default()
    };
    if ech.take_yes(&["enabled"]) {
        let lines = ech.take_list(&["config"]);
        let body: String = lines.iter().filter(|line| !line.starts_with("-----")).map(String::as_str).collect();
        tls.ech = some(body);
    }
    if reality.take_yes(&["enabled"]) {
        tls.reality = Some(fields::reality(&reality.take(&["public_key"]), &reality.take(&["short_id"]), None, None)?);
    }
    Ok(tls)
}

fn transport(mut f: Fields) -> Transport {
    let mut headers = f.take_object(&["headers"]);
    let host = match f.take_list(&["host"]).join(",") {
        host if host.is_empty() => headers.take_header("host"),
        host => host,
    };
    Framing {
        kind: f.take_word(&["type"]),
        host,
        path: f.take(&["path"]),
        service_name: f.take(&["service_name"]),
        early_data: f.take_number(&["max_early_data"]).filter(|n| *n > 0),
        early_data_header: f.take(&["early_data_header_name"]),
        ..Framing::default()
    }
    .build()
}

fn wireguard(name: String, mut f: Fields) -> Result<Node, ParseError> {
    let mut peer = f.take_objects(&["peers"]).into_iter().next().unwrap_or_default();
    let address = fields::host(&some(peer.take(&["address", "server"])).unwrap_or_else(|| f.take(&["server"])))?;
    let port = fields::port(&some(peer.take(&["port", "server_port"])).unwrap_or_else(|| f.take(&["server_port"])))?;
    let private = f.take(&["private_key"]);
    if private.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no private key"));
    }
    let public = some(peer.take(&["public_key"])).unwrap_or_else(|| f.take(&["peer_public_key"]));
    let preshared = peer.take_some(&["pre_shared_key"]).or_else(|| f.take_some(&["pre_shared_key"]));
    let reserved = match peer.take_list(&["reserved"]) {
        list if list.is_empty() => f.take_list(&["reserved"]),
        list => list,
    };
    let wireguard = Wireguard {
        private_key: Secret::new(fields::wireguard_key(&private, "private key")?),
        public_key: fields::wireguard_key(&public, "peer's public key")?,
        preshared_key: match preshared {
            None => None,
            Some(key) => Some(Secret::new(fields::wireguard_key(&key, "pre-shared key")?)),
        },
        local_address: fields::tunnel_addresses(f.take_list(&["address", "local_address"])),
        reserved: fields::reserved(&reserved.join(",")),
        mtu: f.take_number(&["mtu"]),
    };
    Ok(Node::new(name, address, port, Protocol::Wireguard(wireguard)))
}
