//! The framing between TLS and the protocol.

use serde::{Deserialize, Serialize};

use super::Secret;

/// A transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Transport {
    /// TCP, with an optional fake HTTP/1.1 header.
    Tcp {
        /// `http`; `none` or absent for none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        header_type: Option<String>,
        /// Hosts of the fake header, comma separated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Paths of the fake header, comma separated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// WebSocket.
    Ws {
        /// Host header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Path and query, without the `ed` parameter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The most bytes of early data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        early_data: Option<u32>,
        /// The header that carries early data (`Sec-WebSocket-Protocol` when absent).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        early_data_header: Option<String>,
    },
    /// HTTP Upgrade without WebSocket framing.
    Httpupgrade {
        /// Host header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Path and query.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The most bytes of early data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        early_data: Option<u32>,
    },
    /// gRPC.
    Grpc {
        /// Service name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service_name: Option<String>,
        /// gun or multi.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// `:authority`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        authority: Option<String>,
    },
    /// HTTP/2.
    Http {
        /// Hosts, comma separated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// XHTTP (SplitHTTP).
    Xhttp {
        /// Host header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// auto, packet-up, stream-up or stream-one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// The `extra` object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<serde_json::Value>,
    },
    /// mKCP.
    #[serde(rename = "mkcp")]
    Kcp {
        /// Disguise: none, srtp, utp, wechat-video, dtls, wireguard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        header_type: Option<String>,
        /// Seed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<Secret>,
        /// MTU, bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mtu: Option<u16>,
    },
    /// QUIC as v2ray had it.
    Quic {
        /// none, aes-128-gcm or chacha20-poly1305.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quic_security: Option<String>,
        /// Key of that security.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quic_key: Option<Secret>,
        /// Disguise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        header_type: Option<String>,
    },
    /// A transport that this version does not know. Its node is marked unsupported; its
    /// parameters are in the node's `extra`.
    Unknown {
        /// The name that the link or the entry gave.
        name: String,
    },
}

impl Default for Transport {
    /// The bare TCP stream.
    fn default() -> Self {
        Self::Tcp { header_type: None, host: None, path: None }
    }
}
