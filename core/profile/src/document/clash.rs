//! Clash and mihomo configurations.

use serde_json::Value;

use super::Builder;
use super::singbox::keep;
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::framing::Framing;
use crate::json::Fields;
use crate::link::{packet_encoding, plugin_name, plugin_option};
use crate::node::{
    Anytls, Http, Hysteria2, Node, Plugin, Protocol, Secret, Shadowsocks, Socks, Tls, Transport, Trojan, Tuic, UserId,
    Vless, Vmess, Wireguard,
};
use crate::text::{name, shown, some, trim};
use crate::yaml;

const KEYS: &[&str] = &["proxies", "Proxy"];

/// Whether a line in the first column starts the list of servers, or an entry of one was pasted.
pub(super) fn is_clash(text: &str) -> bool {
    let key = |line: &str| {
        let line = line.trim_start_matches('\u{feff}').trim_start_matches(['"', '{']);
        KEYS.iter().any(|key| line.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches('"').starts_with(':')))
    };
    let pasted = |line: &str| {
        let line = trim(line);
        line.starts_with("- {") && line.contains("server:") || line.starts_with("- name:")
    };
    text.split(['\n', '\r']).any(key) || text.lines().next().is_some_and(pasted)
}

/// Every server of the list.
pub(super) fn read(text: &str, out: &mut Builder) {
    let (root, error) = yaml::parse(text);
    if let Some(root) = root {
        let list = KEYS.iter().find_map(|key| root.get(key));
        for entry in list.and_then(|list| list.items()).or_else(|| root.items()).unwrap_or_default() {
            if let Value::Object(map) = entry.value() {
                proxy(entry.line, Fields(map), out);
            }
        }
    }
    if let Some(error) = error {
        out.skip(None, String::new(), &error);
    }
}

fn proxy(line: usize, mut f: Fields, out: &mut Builder) {
    let title = name(&f.take(&["name"]));
    let kind = f.take_word(&["type"]);
    if ["direct", "reject", "dns", "pass", "compatible"].contains(&kind.as_str()) {
        return;
    }
    let what = format!("proxy {} ({})", shown(&title), shown(&kind));
    out.entry(Some(line), what, node(title, &kind, f));
}

fn refused(kind: &str) -> ParseError {
    let name = match kind {
        "ssr" => "ShadowsocksR".to_owned(),
        "snell" => "Snell".to_owned(),
        "hysteria" => "Hysteria 1".to_owned(),
        "mieru" => "mieru".to_owned(),
        "ssh" => "SSH".to_owned(),
        other => format!("Clash's {}", shown(other)),
    };
    ParseError::new(ErrorKind::Unsupported, format!("{name} is not supported"))
}

fn node(name: String, kind: &str, mut f: Fields) -> Result<Node, ParseError> {
    let known = [
        "ss",
        "vmess",
        "vless",
        "trojan",
        "hysteria2",
        "hy2",
        "tuic",
        "anytls",
        "socks5",
        "socks",
        "http",
        "wireguard",
    ];
    if !known.contains(&kind) {
        return Err(refused(kind));
    }
    if kind == "wireguard" {
        return wireguard(name, f);
    }
    let address = fields::host(&f.take(&["server"]))?;
    let listed = f.take(&["ports"]);
    let listed = if listed.is_empty() { None } else { Some(fields::ports(&listed)?) };
    let port = match (f.take(&["port"]), &listed) {
        (port, Some((_, first))) if port.is_empty() => *first,
        (port, _) => fields::port(&port)?,
    };
    let password = |f: &mut Fields| match f.take(&["password"]) {
        password if password.is_empty() => Err(ParseError::new(ErrorKind::MissingCredential, "there is no password")),
        password => Ok(Secret::new(password)),
    };
    let protocol = match kind {
        "ss" => Protocol::Shadowsocks(shadowsocks(&mut f)?),
        "vmess" => Protocol::Vmess(Vmess {
            user: fields::user_id(&f.take(&["uuid"]))?,
            alter_id: f.take_number(&["alterId", "alter-id"]).unwrap_or(0),
            encryption: some(f.take_word(&["cipher"])).unwrap_or_else(|| "auto".to_owned()),
            tls: tls(&mut f, false)?,
            transport: transport(&mut f),
            packet_encoding: packets(&mut f),
        }),
        "vless" => Protocol::Vless(Vless {
            user: fields::user_id(&f.take(&["uuid"]))?,
            encryption: f.take_some(&["encryption"]).unwrap_or_else(|| "none".to_owned()),
            flow: some(f.take_word(&["flow"])),
            tls: tls(&mut f, false)?,
            transport: transport(&mut f),
            packet_encoding: packets(&mut f),
        }),
        "trojan" => Protocol::Trojan(Trojan {
            password: password(&mut f)?,
            tls: tls(&mut f, true)?,
            transport: transport(&mut f),
        }),
        "hysteria2" | "hy2" => Protocol::Hysteria2(Hysteria2 {
            password: Secret::new(f.take(&["password", "auth"])),
            ports: listed.map(|(ports, _)| ports),
            obfs: fields::obfs(
                &f.take(&["obfs"]),
                &f.take(&["obfs-password"]),
                f.take_number(&["obfs-min-packet-size"]),
                f.take_number(&["obfs-max-packet-size"]),
            )?,
            tls: tls(&mut f, true)?,
            up_mbps: fields::mbps(&f.take(&["up"])),
            down_mbps: fields::mbps(&f.take(&["down"])),
        }),
        "tuic" => {
            if !f.take(&["token"]).is_empty() {
                return Err(ParseError::new(ErrorKind::Unsupported, "TUIC v4 (a token) is not supported"));
            }
            Protocol::Tuic(Tuic {
                user: UserId { uuid: Secret::new(fields::uuid(&f.take(&["uuid"]))?), uuid_raw: None },
                password: password(&mut f)?,
                congestion_control: some(f.take_word(&["congestion-controller"])),
                udp_relay_mode: some(f.take_word(&["udp-relay-mode"])),
                zero_rtt: f.take_yes(&["reduce-rtt"]),
                tls: tls(&mut f, true)?,
            })
        }
        "anytls" => Protocol::Anytls(Anytls { password: password(&mut f)?, tls: tls(&mut f, true)? }),
        "socks5" | "socks" => {
            let over_tls = f.take_yes(&["tls"]);
            let socks = Socks {
                version: "5".to_owned(),
                username: f.take_some(&["username"]),
                password: f.take_some(&["password"]).map(Secret::new),
            };
            let mut node = Node::new(name, address, port, Protocol::Socks(socks));
            keep(&mut node, "clash:", f);
            if over_tls {
                node.extra.insert("clash:tls".to_owned(), "true".to_owned());
                node.mark_unsupported(ErrorKind::BadSecurity, "SOCKS over TLS is not supported");
            }
            return Ok(node);
        }
        _ => Protocol::Http(Http {
            username: f.take_some(&["username"]),
            password: f.take_some(&["password"]).map(Secret::new),
            tls: tls(&mut f, false)?,
        }),
    };
    let mut node = Node::new(name, address, port, protocol);
    keep(&mut node, "clash:", f);
    Ok(node)
}

fn packets(f: &mut Fields) -> Option<String> {
    let word = packet_encoding(&f.take(&["packet-encoding"]));
    let (xudp, packet) = (f.take_yes(&["xudp"]), f.take_yes(&["packet-addr"]));
    word.or_else(|| xudp.then(|| "xudp".to_owned())).or_else(|| packet.then(|| "packetaddr".to_owned()))
}

fn shadowsocks(f: &mut Fields) -> Result<Shadowsocks, ParseError> {
    let method = fields::shadowsocks_method(&f.take(&["cipher"]));
    let password = f.take(&["password"]);
    fields::shadowsocks_password(&method, &password)?;
    let plugin = plugin_name(&f.take(&["plugin"]));
    let opts = f.take_object(&["plugin-opts"]);
    let (old_mode, old_host) = (f.take(&["obfs"]), f.take(&["obfs-host"]));
    let plugin = if !plugin.is_empty() {
        let obfs = plugin == "obfs-local";
        let key = |key: String| match (obfs, key.as_str()) {
            (true, "mode") => "obfs".to_owned(),
            (true, "host") => "obfs-host".to_owned(),
            (true, "path" | "uri") => "obfs-uri".to_owned(),
            (true | false, _) => key,
        };
        let opts = opts.0.into_iter().filter_map(|(name, value)| match value {
            Value::Object(_) | Value::Array(_) => Some((name, Value::String(value.to_string()))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => plugin_option(key(name), &value),
        });
        Some(Plugin { name: plugin, opts: opts.collect() })
    } else if !old_mode.is_empty() {
        let pairs = [("obfs", old_mode), ("obfs-host", old_host)];
        let opts = pairs.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), Value::String(v)));
        Some(Plugin { name: "obfs-local".to_owned(), opts: opts.collect() })
    } else {
        None
    };
    Ok(Shadowsocks { method, password: Secret::new(password), plugin, udp_over_tcp: f.take_yes(&["udp-over-tcp"]) })
}

fn tls(f: &mut Fields, always: bool) -> Result<Tls, ParseError> {
    let mut reality = f.take_object(&["reality-opts"]);
    let mut ech = f.take_object(&["ech-opts"]);
    let key = reality.take(&["public-key"]);
    let on = f.take_yes(&["tls"]);
    Ok(Tls {
        enabled: always || on || !key.is_empty(),
        sni: f.take_some(&["servername", "sni"]),
        alpn: f.take_list(&["alpn"]),
        fingerprint: some(f.take_word(&["client-fingerprint"])),
        insecure: f.take_yes(&["skip-cert-verify"]),
        pin_sha256: some(fields::pins(&f.take(&["fingerprint"]))),
        ech: ech.take_some(&["config"]).filter(|_| ech.take_yes(&["enable"])),
        disable_sni: f.take_yes(&["disable-sni"]),
        reality: match key.as_str() {
            "" => None,
            key => Some(fields::reality(key, &reality.take(&["short-id"]), None, None)?),
        },
    })
}

fn transport(f: &mut Fields) -> Transport {
    let network = f.take_word(&["network"]);
    let mut parts = Framing { kind: network, ..Framing::default() };
    match parts.kind.as_str() {
        "ws" | "httpupgrade" => {
            let mut ws = f.take_object(&["ws-opts"]);
            let mut headers = ws.take_object(&["headers"]);
            let mut old = f.take_object(&["ws-headers"]);
            parts.path = ws.take_some(&["path"]).unwrap_or_else(|| f.take(&["ws-path"]));
            parts.host = some(headers.take_header("host")).unwrap_or_else(|| old.take_header("host"));
            parts.early_data = ws.take_number(&["max-early-data"]).filter(|n| *n > 0);
            parts.early_data_header = ws.take(&["early-data-header-name"]);
            if ws.take_yes(&["v2ray-http-upgrade"]) {
                parts.kind = "httpupgrade".to_owned();
            }
        }
        "grpc" => parts.service_name = f.take_object(&["grpc-opts"]).take(&["grpc-service-name"]),
        "h2" => {
            let mut h2 = f.take_object(&["h2-opts"]);
            (parts.host, parts.path) = (h2.take_list(&["host"]).join(","), h2.take(&["path"]));
        }
        "http" => {
            // What Clash calls http is plain TCP with a fake HTTP/1.1 header.
            let mut http = f.take_object(&["http-opts"]);
            let mut headers = http.take_object(&["headers"]);
            parts.kind = "tcp".to_owned();
            parts.header_type = "http".to_owned();
            parts.path = http.take_list(&["path"]).join(",");
            parts.host = headers.take_list(&["Host", "host"]).join(",");
        }
        "xhttp" | "splithttp" => {
            let mut xhttp = f.take_object(&["xhttp-opts", "splithttp-opts"]);
            (parts.host, parts.path) = (xhttp.take(&["host"]), xhttp.take(&["path"]));
            parts.mode = xhttp.take(&["mode"]);
            let Fields(rest) = xhttp;
            parts.extra = (!rest.is_empty()).then_some(Value::Object(rest));
        }
        _ => {}
    }
    parts.build()
}

fn wireguard(name: String, mut f: Fields) -> Result<Node, ParseError> {
    let mut peer = f.take_objects(&["peers"]).into_iter().next().unwrap_or_default();
    let mut get = |f: &mut Fields, keys: &[&str]| some(f.take(keys)).unwrap_or_else(|| peer.take(keys));
    let address = fields::host(&get(&mut f, &["server"]))?;
    let port = fields::port(&get(&mut f, &["port"]))?;
    let private = f.take(&["private-key"]);
    if private.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no private key"));
    }
    let public = get(&mut f, &["public-key"]);
    let preshared = some(get(&mut f, &["pre-shared-key", "preshared-key"]));
    let reserved = f.take_list(&["reserved"]).join(",");
    let wireguard = Wireguard {
        private_key: Secret::new(fields::wireguard_key(&private, "private key")?),
        public_key: fields::wireguard_key(&public, "peer's public key")?,
        preshared_key: match preshared {
            None => None,
            Some(key) => Some(Secret::new(fields::wireguard_key(&key, "pre-shared key")?)),
        },
        local_address: fields::tunnel_addresses(f.take_list(&["ip"]).into_iter().chain(f.take_list(&["ipv6"]))),
        reserved: fields::reserved(&reserved),
        mtu: f.take_number(&["mtu"]),
    };
    let mut node = Node::new(name, address, port, Protocol::Wireguard(wireguard));
    keep(&mut node, "clash:", f);
    Ok(node)
}
