//! Why a TLS handshake fails, and which alert says so to the server.

use super::verify::CertificateError;

/// Why a handshake failed. Fatal for the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The server sent an alert.
    #[error("the server broke off the TLS handshake: {}", describe_alert(*.0))]
    Alert(u8),
    /// What came is no TLS, or not in the form that TLS gives it.
    #[error("the server's answer is no TLS 1.3: {0}")]
    Malformed(&'static str),
    /// The server broke a rule of the protocol.
    #[error("the server broke a rule of TLS 1.3: {0}")]
    Illegal(&'static str),
    /// The server chose TLS 1.2 or older.
    #[error(
        "the server speaks only TLS 1.2 or older; a browser's handshake is offered for TLS 1.3 alone: turn the fingerprint off for this node"
    )]
    OnlyOlderTls,
    /// The server asked for something that is offered for the look of it but not spoken.
    #[error("the server chose {0}, which is not supported")]
    Unsupported(&'static str),
    /// The server's certificate is not accepted.
    #[error("the server's certificate is not accepted: {0}")]
    Certificate(#[from] CertificateError),
    /// A record does not open, or the Finished message does not match.
    #[error("the TLS handshake was tampered with or the server is broken: {0}")]
    Integrity(&'static str),
    /// A key could not be made or used.
    #[error("the cryptography failed: {0}")]
    Crypto(&'static str),
    /// The fingerprint can't be used for this handshake.
    #[error("{0}")]
    Configuration(&'static str),
}

impl TlsError {
    /// The alert to send before closing, if one is due.
    pub fn alert(&self) -> Option<u8> {
        match self {
            Self::Alert(_) | Self::Configuration(_) => None,
            Self::Malformed(_) => Some(50),
            Self::Illegal(_) => Some(47),
            Self::OnlyOlderTls => Some(70),
            Self::Unsupported(_) => Some(47),
            Self::Certificate(_) => Some(42),
            Self::Integrity(_) => Some(51),
            Self::Crypto(_) => Some(80),
        }
    }
}

/// What an alert says, in words.
pub fn describe_alert(alert: u8) -> &'static str {
    match alert {
        0 => "it closed the connection",
        10 => "unexpected message",
        20 => "a record failed authentication",
        22 => "a record is too long",
        40 => "handshake failure (no common cipher, group or signature)",
        42 => "bad certificate",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        46 => "certificate unknown",
        47 => "illegal parameter",
        48 => "unknown certificate authority",
        49 => "access denied",
        50 => "decode error",
        51 => "decrypt error",
        70 => "protocol version not supported",
        71 => "insufficient security",
        80 => "internal error",
        86 => "inappropriate fallback",
        90 => "user cancelled",
        109 => "missing extension",
        110 => "unsupported extension",
        112 => "it does not know this server name",
        113 => "bad certificate status",
        115 => "unknown PSK identity",
        116 => "it wants a client certificate",
        120 => "no common application protocol (ALPN)",
        121 => "ECH required",
        _ => "an alert of unknown kind",
    }
}
