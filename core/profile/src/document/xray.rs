//! Xray and v2ray configurations.

use serde_json::Value;

use super::Builder;
use super::singbox::keep;
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::framing::{self, Framing};
use crate::json::Fields;
use crate::link::split_port;
use crate::node::{
    Http, Hysteria2, Node, Protocol, Secret, Shadowsocks, Socks, Tls, Transport, Trojan, Vless, Vmess, Wireguard,
};
use crate::text::{name, shown, some};

/// Outbounds that are no servers.
const NO_SERVERS: &[&str] = &["freedom", "blackhole", "dns", "loopback", "direct", "block"];

/// Every server of a configuration, named by its `remarks`.
pub(super) fn read(mut config: Fields, out: &mut Builder) {
    let remarks = name(&config.take(&["remarks", "remark", "ps"]));
    let before = (out.nodes.len(), out.skipped.len() + out.skipped_more);
    for entry in config.take_objects(&["outbounds"]) {
        outbound(&remarks, entry, out);
    }
    if before == (out.nodes.len(), out.skipped.len() + out.skipped_more) {
        let reason = format!("the configuration {} has no server", shown(&remarks));
        out.skip(None, remarks, &ParseError::new(ErrorKind::NoNodes, reason));
    }
}

/// One outbound; each of its servers is a node.
pub(super) fn outbound(remarks: &str, mut f: Fields, out: &mut Builder) {
    let tag = name(&f.take(&["tag"]));
    let kind = f.take_word(&["protocol"]);
    if NO_SERVERS.contains(&kind.as_str()) {
        return;
    }
    let title = if remarks.is_empty() { tag } else { remarks.to_owned() };
    let mut settings = f.take_object(&["settings"]);
    let stream = f.take_object(&["streamSettings"]);
    let mut servers = settings.take_objects(&["vnext", "servers", "peers"]);
    if servers.is_empty() {
        servers.push(Fields::default());
    }
    let what = format!("outbound {} ({kind})", shown(&title));
    for server in servers {
        let mut node = node(&title, &kind, Fields(settings.0.clone()), server, Fields(stream.0.clone()));
        if let Ok(node) = &mut node {
            keep(node, "xray:", Fields(f.0.clone()));
        }
        out.entry(None, what.clone(), node);
    }
}

fn node(
    name: &str,
    kind: &str,
    mut settings: Fields,
    mut server: Fields,
    mut stream: Fields,
) -> Result<Node, ParseError> {
    if kind == "wireguard" {
        return wireguard(name, settings, server);
    }
    if !["vless", "vmess", "trojan", "shadowsocks", "socks", "http", "hysteria", "hysteria2"].contains(&kind) {
        return Err(ParseError::new(ErrorKind::Unsupported, format!("Xray's {} is not supported", shown(kind))));
    }
    let mut user = server.take_objects(&["users"]).into_iter().next().unwrap_or_default();
    let mut get = |keys: &[&str]| {
        let nested = some(user.take(keys)).or_else(|| some(server.take(keys)));
        nested.unwrap_or_else(|| settings.take(keys))
    };
    let address = fields::host(&get(&["address"]))?;
    let port = fields::port(&get(&["port"]))?;
    let network = stream.take_word(&["network"]);
    let tls = tls(&mut stream)?;
    let finalmask = stream.0.remove("finalmask").filter(|mask| !mask.is_null()).map(|mask| mask.to_string());
    let protocol = match kind {
        "vless" => Protocol::Vless(Vless {
            user: fields::user_id(&get(&["id"]))?,
            encryption: some(get(&["encryption"])).unwrap_or_else(|| "none".to_owned()),
            flow: some(get(&["flow"])),
            tls,
            transport: transport(network, &mut stream),
            packet_encoding: None,
        }),
        "vmess" => Protocol::Vmess(Vmess {
            user: fields::user_id(&get(&["id"]))?,
            alter_id: get(&["alterId"]).parse().unwrap_or(0),
            encryption: some(get(&["security"]).to_ascii_lowercase()).unwrap_or_else(|| "auto".to_owned()),
            tls,
            transport: transport(network, &mut stream),
            packet_encoding: None,
        }),
        "trojan" => {
            let password = get(&["password"]);
            if password.is_empty() {
                return Err(ParseError::new(ErrorKind::MissingCredential, "there is no password"));
            }
            Protocol::Trojan(Trojan {
                password: Secret::new(password),
                tls,
                transport: transport(network, &mut stream),
            })
        }
        "shadowsocks" => {
            let method = fields::shadowsocks_method(&get(&["method"]));
            let password = get(&["password"]);
            fields::shadowsocks_password(&method, &password)?;
            let udp_over_tcp = crate::text::yes(&get(&["uot"]));
            let plain = framing::canonical(&network) == Some("tcp") && !tls.enabled;
            let shadowsocks = Shadowsocks { method, password: Secret::new(password), plugin: None, udp_over_tcp };
            let mut node = Node::new(name, address, port, Protocol::Shadowsocks(shadowsocks));
            if !plain {
                let reason = "Shadowsocks over an Xray transport or TLS is not supported; a plugin is";
                node.mark_unsupported(ErrorKind::BadTransport, reason);
            }
            return Ok(node);
        }
        "socks" => Protocol::Socks(Socks {
            version: "5".to_owned(),
            username: some(get(&["user"])),
            password: some(get(&["pass"])).map(Secret::new),
        }),
        "http" => Protocol::Http(Http {
            username: some(get(&["user"])),
            password: some(get(&["pass"])).map(Secret::new),
            tls,
        }),
        _ => {
            if kind == "hysteria" && get(&["version"]) != "2" {
                return Err(ParseError::new(ErrorKind::Unsupported, "Hysteria 1 is not supported"));
            }
            let password = stream.take_object(&["hysteriaSettings"]).take(&["auth"]);
            Protocol::Hysteria2(Hysteria2 {
                password: Secret::new(password),
                ports: None,
                obfs: None,
                tls: Tls { enabled: true, ..tls },
                up_mbps: None,
                down_mbps: None,
            })
        }
    };
    let mut node = Node::new(name, address, port, protocol);
    if let Some(mask) = finalmask {
        node.extra.insert("fm".to_owned(), mask);
    }
    keep(&mut node, "xray:", stream);
    Ok(node)
}

fn tls(stream: &mut Fields) -> Result<Tls, ParseError> {
    let security = stream.take_word(&["security"]);
    let mut tls = stream.take_object(&["tlsSettings"]);
    let mut reality = stream.take_object(&["realitySettings"]);
    match security.as_str() {
        "" | "none" => Ok(Tls::default()),
        "tls" => Ok(Tls {
            enabled: true,
            sni: tls.take_some(&["serverName"]),
            alpn: tls.take_list(&["alpn"]),
            fingerprint: some(tls.take_word(&["fingerprint"])),
            insecure: tls.take_yes(&["allowInsecure"]),
            pin_sha256: some(fields::pins(&tls.take_list(&["pinnedPeerCertSha256"]).join(","))),
            ech: tls.take_some(&["echConfigList"]),
            ..Tls::default()
        }),
        "reality" => {
            let key = reality.take(&["password", "publicKey"]);
            let (id, spider) = (reality.take(&["shortId"]), reality.take_some(&["spiderX"]));
            Ok(Tls {
                enabled: true,
                sni: reality.take_some(&["serverName"]),
                fingerprint: some(reality.take_word(&["fingerprint"])),
                reality: Some(fields::reality(&key, &id, spider, reality.take_some(&["mldsa65Verify"]))?),
                ..Tls::default()
            })
        }
        other => Err(ParseError::new(ErrorKind::BadSecurity, format!("unknown security {}", shown(other)))),
    }
}

fn transport(network: String, stream: &mut Fields) -> Transport {
    let (keys, http): (&[&str], bool) = match framing::canonical(&network) {
        Some("tcp") => (&["rawSettings", "tcpSettings"], true),
        Some("ws") => (&["wsSettings"], false),
        Some("httpupgrade") => (&["httpupgradeSettings"], false),
        Some("grpc") => (&["grpcSettings"], false),
        Some("http") => (&["httpSettings"], false),
        Some("xhttp") => (&["xhttpSettings", "splithttpSettings"], false),
        Some("mkcp") => (&["kcpSettings"], false),
        Some("quic") => (&["quicSettings"], false),
        Some(_) | None => (&[], false),
    };
    let mut f = stream.take_object(keys);
    let mut header = f.take_object(&["header"]);
    let mut headers = f.take_object(&["headers"]);
    let mut parts = Framing { kind: network, header_type: header.take_word(&["type"]), ..Framing::default() };
    if http {
        let mut request = header.take_object(&["request"]);
        parts.path = request.take_list(&["path"]).join(",");
        parts.host = request.take_object(&["headers"]).take_list(&["Host", "host"]).join(",");
        return parts.build();
    }
    parts.host = match f.take_list(&["host"]).join(",") {
        host if host.is_empty() => headers.take_header("host"),
        host => host,
    };
    parts.path = f.take(&["path"]);
    parts.service_name = f.take(&["serviceName"]);
    parts.authority = f.take(&["authority"]);
    parts.mode = if f.take_yes(&["multiMode"]) { "multi".to_owned() } else { f.take(&["mode"]) };
    parts.seed = f.take(&["seed"]);
    parts.mtu = f.take_number(&["mtu"]);
    parts.quic_security = f.take(&["security"]);
    parts.quic_key = f.take(&["key"]);
    if framing::canonical(&parts.kind) == Some("xhttp") {
        // What is not a field of its own belongs to `extra`, which wins over it.
        let mut extra = f.take_object(&["extra"]).0;
        for (key, value) in f.0 {
            if !value.is_null() && key != "extra" {
                extra.entry(key).or_insert(value);
            }
        }
        if !headers.0.is_empty() {
            extra.entry("headers").or_insert(Value::Object(headers.0));
        }
        parts.extra = (!extra.is_empty()).then_some(Value::Object(extra));
    }
    parts.build()
}

fn wireguard(name: &str, mut f: Fields, mut peer: Fields) -> Result<Node, ParseError> {
    let endpoint = peer.take(&["endpoint"]);
    let (host, port) = split_port(&endpoint);
    let (address, port) = (fields::host(host)?, fields::port(port)?);
    let private = f.take(&["secretKey"]);
    if private.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no private key"));
    }
    let wireguard = Wireguard {
        private_key: Secret::new(fields::wireguard_key(&private, "private key")?),
        public_key: fields::wireguard_key(&peer.take(&["publicKey"]), "peer's public key")?,
        preshared_key: match peer.take_some(&["preSharedKey"]) {
            None => None,
            Some(key) => Some(Secret::new(fields::wireguard_key(&key, "pre-shared key")?)),
        },
        local_address: fields::tunnel_addresses(f.take_list(&["address"])),
        reserved: fields::reserved(&f.take_list(&["reserved"]).join(",")),
        mtu: f.take_number(&["mtu"]),
    };
    Ok(Node::new(name, address, port, Protocol::Wireguard(wireguard)))
}
