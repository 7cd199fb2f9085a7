//! What lies between the socket and the protocol: nothing, TLS or REALITY.

use serde::{Deserialize, Serialize};

use super::Secret;

/// TLS options. `reality` present means REALITY.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tls {
    /// Whether there is TLS (or REALITY) at all.
    #[serde(default)]
    pub enabled: bool,
    /// Server name; falls back to the transport's host, then the node's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// ALPN protocols, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<String>,
    /// Browser whose handshake to wear (chrome, firefox, …); lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Accept any certificate. A marked, unsafe choice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// SHA-256 of the accepted certificate (hex, lower case, no colons), comma separated if several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_sha256: Option<String>,
    /// ECH configuration list (base64) or a query instruction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ech: Option<String>,
    /// Send no server name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_sni: bool,
    /// REALITY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reality: Option<Reality>,
}

/// REALITY options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reality {
    /// The server's X25519 public key, base64url without padding (43 characters).
    pub public_key: String,
    /// Up to 16 hex digits (an even count), as text; empty is allowed.
    #[serde(default)]
    pub short_id: Secret,
    /// The path that a visiting browser would open first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spider_x: Option<String>,
    /// ML-DSA-65 verification key, base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mldsa65_verify: Option<String>,
}
