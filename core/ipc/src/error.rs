//! Errors as they cross the socket: a stable code, parameters for the app's own sentence, and a
//! plain English message for people who read the command line.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// What a caller can tell apart. Stable: the app has a sentence for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The frame is no JSON-RPC request.
    InvalidRequest,
    /// There is no method of that name. Parameter: `method`.
    UnknownMethod,
    /// The parameters don't fit the method. Parameter: `problem`.
    InvalidParams,
    /// The peer speaks another version. Parameters: `ours`, `theirs`.
    VersionMismatch,
    /// The node does not exist (any more). Parameter: `node`.
    NodeNotFound,
    /// The node can't be used. Parameter: `reason`.
    NodeUnsupported,
    /// The node's secrets can't be opened, since the key is not there. Parameter: `reason`.
    NodeLocked,
    /// The thing that was asked for does not exist. Parameter: `what`.
    NotFound,
    /// The text holds nothing that can be used. Parameter: `reason`.
    NothingUsable,
    /// A setting has a value that is not allowed. Parameters: `setting`, `reason`.
    InvalidSetting,
    /// No port could be opened. Parameters: `address`, `reason`, and `holder` when it is known.
    PortTaken,
    /// The system's proxy setting could not be changed. Parameter: `reason`.
    SystemProxy,
    /// The data folder could not be read or written. Parameter: `reason`.
    Storage,
    /// Too much at once: a list or text above its limit. Parameters: `what`, `limit`.
    TooLarge,
    /// The same thing is already under way. Parameter: `what`.
    Busy,
    /// A defect in the core. Parameter: `reason`.
    Internal,
}

impl ErrorCode {
    /// The number of JSON-RPC's `error.code`.
    pub fn number(self) -> i32 {
        match self {
            Self::InvalidRequest => -32600,
            Self::UnknownMethod => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::VersionMismatch => -32001,
            Self::NodeNotFound => -32002,
            Self::NodeUnsupported => -32003,
            Self::NodeLocked => -32004,
            Self::NotFound => -32005,
            Self::NothingUsable => -32006,
            Self::InvalidSetting => -32007,
            Self::PortTaken => -32008,
            Self::SystemProxy => -32009,
            Self::Storage => -32010,
            Self::TooLarge => -32011,
            Self::Busy => -32012,
        }
    }
}

/// A refused or failed call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct RpcError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// Values for the sentence, never secrets.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    /// The sentence in English.
    pub message: String,
}

impl RpcError {
    /// An error of `code` that reads `message`.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, params: BTreeMap::new(), message: message.into() }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.params.insert(name.to_owned(), value.to_string());
        self
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RpcError {}
