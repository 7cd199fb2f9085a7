//! The typed node: everything a share link or a subscription entry can say about one server.
//!
//! The serialised form (`culvert-core parse --json`, the store, IPC) is a public interface,
//! described in `docs/node-format.md`.

mod secret;
mod security;
mod transport;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;

pub use secret::Secret;
pub use security::{Reality, Tls};
pub use transport::Transport;

/// One server that a person can connect through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The name that the link carries; empty when it carries none.
    #[serde(default)]
    pub name: String,
    /// IP address without brackets, or a host name in its ASCII form.
    pub address: String,
    /// 1 to 65535; of a port list, the first.
    pub port: u16,
    /// Protocol and its options.
    #[serde(flatten)]
    pub protocol: Protocol,
    /// Parameters that this version does not know, kept for export.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub extra: IndexMap<String, String>,
    /// Why the node can't be used, when it can't: an unknown cipher, transport, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
    /// The kind of that reason, for programs; present when `unsupported` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported_kind: Option<ErrorKind>,
}

impl Node {
    /// A usable node without extra parameters.
    pub fn new(name: impl Into<String>, address: impl Into<String>, port: u16, protocol: Protocol) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            port,
            protocol,
            extra: IndexMap::new(),
            unsupported: None,
            unsupported_kind: None,
        }
    }

    /// Marks the node as one that is kept and shown but can't be used. The first reason stays.
    pub fn mark_unsupported(&mut self, kind: ErrorKind, reason: impl Into<String>) {
        if self.unsupported.is_none() {
            self.unsupported = Some(reason.into());
            self.unsupported_kind = Some(kind);
        }
    }
}

/// The protocol of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "lowercase")]
pub enum Protocol {
    /// VMess.
    Vmess(Vmess),
    /// VLESS.
    Vless(Vless),
    /// Shadowsocks, AEAD or 2022.
    Shadowsocks(Shadowsocks),
    /// Trojan.
    Trojan(Trojan),
    /// Hysteria 2.
    Hysteria2(Hysteria2),
    /// TUIC version 5.
    Tuic(Tuic),
    /// AnyTLS.
    Anytls(Anytls),
    /// SOCKS 4, 4a or 5.
    Socks(Socks),
    /// An HTTP proxy that offers CONNECT.
    Http(Http),
    /// WireGuard.
    Wireguard(Wireguard),
}

/// The user of a VMess or VLESS server: a UUID, or a free text that stands for one
/// (`SHA1(16 zero bytes ‖ text)` in the form of a version 5 UUID).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserId {
    /// The UUID, lower case with dashes.
    pub uuid: Secret,
    /// The free text that it was made from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid_raw: Option<Secret>,
}

/// VMess options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vmess {
    /// The user.
    #[serde(flatten)]
    pub user: UserId,
    /// Above 0: the legacy header, a weak choice.
    #[serde(default)]
    pub alter_id: u16,
    /// Body security: auto, aes-128-gcm, chacha20-poly1305, none, zero.
    pub encryption: String,
    /// TLS.
    #[serde(default)]
    pub tls: Tls,
    /// Transport.
    #[serde(default)]
    pub transport: Transport,
    /// UDP packet encoding: xudp, packetaddr or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_encoding: Option<String>,
}

/// VLESS options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vless {
    /// The user.
    #[serde(flatten)]
    pub user: UserId,
    /// `none` or a VLESS encryption string.
    pub encryption: String,
    /// `xtls-rprx-vision`, the same with `-udp443`, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// TLS or REALITY.
    #[serde(default)]
    pub tls: Tls,
    /// Transport.
    #[serde(default)]
    pub transport: Transport,
    /// UDP packet encoding: xudp, packetaddr or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_encoding: Option<String>,
}

/// Shadowsocks options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shadowsocks {
    /// Cipher in its canonical lower-case spelling.
    pub method: String,
    /// Password, or the keys of a 2022 method joined by `:`.
    pub password: Secret,
    /// SIP003 plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Plugin>,
    /// UDP over TCP (sing).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub udp_over_tcp: bool,
}

/// A SIP003 plugin and its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plugin {
    /// Canonical name: obfs-local, v2ray-plugin, shadow-tls, …
    pub name: String,
    /// Options; a flag without a value is `true`.
    #[serde(default)]
    pub opts: IndexMap<String, serde_json::Value>,
}

/// Trojan options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trojan {
    /// Password.
    pub password: Secret,
    /// TLS (on unless the link says otherwise).
    #[serde(default)]
    pub tls: Tls,
    /// Transport.
    #[serde(default)]
    pub transport: Transport,
}

/// Hysteria 2 options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hysteria2 {
    /// Authentication text; empty when the link has none.
    #[serde(default)]
    pub password: Secret,
    /// Port list of port hopping, such as `443,5000-6000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<String>,
    /// Packet obfuscation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obfs: Option<Obfs>,
    /// TLS.
    #[serde(default)]
    pub tls: Tls,
    /// Upload bandwidth in Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_mbps: Option<u32>,
    /// Download bandwidth in Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_mbps: Option<u32>,
}

/// Hysteria 2 packet obfuscation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Obfs {
    /// salamander or gecko.
    #[serde(rename = "type")]
    pub kind: String,
    /// Obfuscation password.
    #[serde(default)]
    pub password: Secret,
    /// gecko: least packet size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_packet_size: Option<u16>,
    /// gecko: greatest packet size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_packet_size: Option<u16>,
}

/// TUIC version 5 options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuic {
    /// The user.
    #[serde(flatten)]
    pub user: UserId,
    /// Password.
    pub password: Secret,
    /// cubic, new_reno or bbr; absent for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// native or quic; absent for the default (native).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_relay_mode: Option<String>,
    /// Send the first request as 0-RTT data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zero_rtt: bool,
    /// TLS.
    #[serde(default)]
    pub tls: Tls,
}

/// AnyTLS options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anytls {
    /// Password.
    pub password: Secret,
    /// TLS or REALITY.
    #[serde(default)]
    pub tls: Tls,
}

/// SOCKS options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Socks {
    /// `4`, `4a` or `5`.
    pub version: String,
    /// User name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

/// HTTP proxy options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Http {
    /// User name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// TLS to the proxy.
    #[serde(default)]
    pub tls: Tls,
}

/// WireGuard options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wireguard {
    /// Our private key, base64.
    pub private_key: Secret,
    /// The peer's public key, base64.
    pub public_key: String,
    /// Pre-shared key, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preshared_key: Option<Secret>,
    /// Our addresses in the tunnel, with prefix length.
    #[serde(default)]
    pub local_address: Vec<String>,
    /// The three reserved bytes of each packet (Cloudflare's client id).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<[u8; 3]>,
    /// MTU in the tunnel, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
}
