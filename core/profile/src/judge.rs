//! Marks nodes that hold a value this version does not know. They are kept, shown and exported
//! unchanged, and never used as something weaker than what they say.

use crate::error::ErrorKind;
use crate::node::{Node, Protocol, Shadowsocks, Transport, Vless};
use crate::text::shown;

const VMESS: &[&str] = &["auto", "none", "zero", "aes-128-gcm", "chacha20-poly1305"];
const FLOWS: &[&str] = &["none", "xtls-rprx-vision", "xtls-rprx-vision-udp443"];
const SHADOWSOCKS: &[&str] = &[
    "none",
    "aes-128-gcm",
    "aes-192-gcm",
    "aes-256-gcm",
    "chacha20-ietf-poly1305",
    "xchacha20-ietf-poly1305",
    "2022-blake3-aes-128-gcm",
    "2022-blake3-aes-256-gcm",
    "2022-blake3-chacha20-poly1305",
];
const PLUGINS: &[&str] = &["obfs-local", "v2ray-plugin"];

/// Looks `node` over and marks it when it can't be used.
pub(crate) fn judge(node: &mut Node) {
    if let Some((kind, reason)) = complaint(&node.protocol) {
        node.mark_unsupported(kind, reason);
    }
}

fn complaint(protocol: &Protocol) -> Option<(ErrorKind, String)> {
    match protocol {
        Protocol::Vmess(vmess) => known(VMESS, &vmess.encryption, ErrorKind::BadCipher, "VMess cipher")
            .or_else(|| transport(&vmess.transport)),
        Protocol::Vless(vless) => of_vless(vless).or_else(|| transport(&vless.transport)),
        Protocol::Trojan(trojan) => transport(&trojan.transport),
        Protocol::Shadowsocks(shadowsocks) => of_shadowsocks(shadowsocks),
        Protocol::Hysteria2(hysteria2) => hysteria2
            .obfs
            .as_ref()
            .and_then(|obfs| known(&["salamander", "gecko"], &obfs.kind, ErrorKind::BadObfs, "obfuscation")),
        Protocol::Tuic(_) | Protocol::Anytls(_) | Protocol::Socks(_) | Protocol::Http(_) | Protocol::Wireguard(_) => {
            None
        }
    }
}

fn known(list: &[&str], value: &str, kind: ErrorKind, what: &str) -> Option<(ErrorKind, String)> {
    (!list.contains(&value)).then(|| (kind, format!("unknown {what} {}", shown(value))))
}

fn of_vless(vless: &Vless) -> Option<(ErrorKind, String)> {
    let encryption = &vless.encryption;
    if encryption != "none" && !is_vless_encryption(encryption) {
        return Some((ErrorKind::BadEncryption, "an encryption that VLESS does not have".to_owned()));
    }
    vless.flow.as_deref().and_then(|flow| known(FLOWS, flow, ErrorKind::BadFlow, "flow"))
}

/// `mlkem768x25519plus.<native, xorpub, random>.<0rtt, 1rtt>.[padding.]<key>[.<key>]`.
fn is_vless_encryption(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(64, '.').collect();
    matches!(
        parts.as_slice(),
        ["mlkem768x25519plus", "native" | "xorpub" | "random", "0rtt" | "1rtt", .., key] if key.len() >= 43
    )
}

fn of_shadowsocks(shadowsocks: &Shadowsocks) -> Option<(ErrorKind, String)> {
    let method = shadowsocks.method.as_str();
    if !SHADOWSOCKS.contains(&method) {
        let old = method.ends_with("-cfb") || method.ends_with("-ctr") || method.starts_with("rc4");
        let old = old || matches!(method, "chacha20" | "chacha20-ietf" | "salsa20" | "xchacha20" | "table");
        let name =
            if method.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') { shown(method) } else { String::new() };
        return Some(if old {
            (ErrorKind::Unsupported, format!("the stream cipher {name} is broken and no longer offered"))
        } else {
            (ErrorKind::BadCipher, format!("unknown cipher {name}"))
        });
    }
    let plugin = shadowsocks.plugin.as_ref()?;
    known(PLUGINS, &plugin.name, ErrorKind::Unsupported, "Shadowsocks plugin")
}

fn transport(transport: &Transport) -> Option<(ErrorKind, String)> {
    match transport {
        Transport::Unknown { name } => Some((ErrorKind::BadTransport, format!("unknown transport {}", shown(name)))),
        Transport::Tcp { header_type, .. } => {
            known(&["none", "http"], header_type.as_deref().unwrap_or("none"), ErrorKind::BadTransport, "TCP header")
        }
        Transport::Quic { .. } => {
            Some((ErrorKind::BadTransport, "the QUIC transport was dropped by its inventors".to_owned()))
        }
        Transport::Ws { .. }
        | Transport::Httpupgrade { .. }
        | Transport::Grpc { .. }
        | Transport::Http { .. }
        | Transport::Xhttp { .. }
        | Transport::Kcp { .. } => None,
    }
}
