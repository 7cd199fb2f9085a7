//! Why a link or an entry could not be read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a refusal: stable words for programs, listed in `docs/node-format.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Nothing but white space.
    Empty,
    /// A scheme with nothing behind it.
    MissingBody,
    /// Not a link, or a scheme that nobody here knows.
    UnknownScheme,
    /// Recognised, but not something that Culvert can use.
    Unsupported,
    /// Broken base64.
    BadBase64,
    /// Broken JSON, or JSON of another shape.
    BadJson,
    /// Broken YAML.
    BadYaml,
    /// Bytes that are no text.
    BadEncoding,
    /// No server address.
    MissingHost,
    /// A server address that can't be one.
    BadHost,
    /// A port that is missing or outside 1 to 65535.
    BadPort,
    /// No password, UUID or private key.
    MissingCredential,
    /// A user id that is neither a UUID nor a short text standing for one.
    BadUuid,
    /// An unknown cipher.
    BadCipher,
    /// A key of the wrong length or alphabet.
    BadKey,
    /// An unknown transport.
    BadTransport,
    /// An unknown security layer.
    BadSecurity,
    /// REALITY parameters that can't work.
    BadReality,
    /// An unknown flow.
    BadFlow,
    /// An unknown VLESS encryption.
    BadEncryption,
    /// An obfuscation that is unknown or incomplete.
    BadObfs,
    /// A document without any node.
    NoNodes,
    /// Nested deeper than any real document.
    TooDeep,
    /// Larger than the limit, as it stands or once expanded.
    TooLarge,
}

impl ErrorKind {
    /// The stable word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::MissingBody => "missing_body",
            Self::UnknownScheme => "unknown_scheme",
            Self::Unsupported => "unsupported",
            Self::BadBase64 => "bad_base64",
            Self::BadJson => "bad_json",
            Self::BadYaml => "bad_yaml",
            Self::BadEncoding => "bad_encoding",
            Self::MissingHost => "missing_host",
            Self::BadHost => "bad_host",
            Self::BadPort => "bad_port",
            Self::MissingCredential => "missing_credential",
            Self::BadUuid => "bad_uuid",
            Self::BadCipher => "bad_cipher",
            Self::BadKey => "bad_key",
            Self::BadTransport => "bad_transport",
            Self::BadSecurity => "bad_security",
            Self::BadReality => "bad_reality",
            Self::BadFlow => "bad_flow",
            Self::BadEncryption => "bad_encryption",
            Self::BadObfs => "bad_obfs",
            Self::NoNodes => "no_nodes",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a link or an entry was refused. The reason is for people and never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ParseError {
    /// The kind, for programs.
    pub kind: ErrorKind,
    /// What is wrong, in words.
    pub reason: String,
}

impl ParseError {
    /// An error of `kind`; `reason` must not hold a secret.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}
