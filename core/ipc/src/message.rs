//! The JSON-RPC 2.0 envelope.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ErrorCode, RpcError};
use crate::event::Numbered;

/// A request as it arrives. Batches are not offered.
#[derive(Debug, Deserialize)]
pub struct Request {
    /// Must be `2.0`.
    pub jsonrpc: String,
    /// Echoed in the answer; a request without one is a notification and gets no answer.
    #[serde(default)]
    pub id: Option<Value>,
    /// Method name.
    pub method: String,
    /// Parameters, by name.
    #[serde(default)]
    pub params: Value,
}

/// A request as it is sent.
#[derive(Debug, Serialize)]
pub struct OutgoingRequest<'a, P> {
    /// Always `2.0`.
    pub jsonrpc: &'static str,
    /// Number of the request.
    pub id: u64,
    /// Method name.
    pub method: &'a str,
    /// Parameters.
    pub params: P,
}

/// An answer as it is sent.
#[derive(Debug, Serialize)]
pub struct Response {
    jsonrpc: &'static str,
    id: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<WireError>,
}

impl Response {
    /// The answer to request `id`.
    pub fn new(id: Value, outcome: Result<Value, RpcError>) -> Self {
        match outcome {
            Ok(result) => Self { jsonrpc: "2.0", id, result: Some(result), error: None },
            Err(error) => Self { jsonrpc: "2.0", id, result: None, error: Some(error.into()) },
        }
    }
}

/// JSON-RPC's error object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WireError {
    /// Number of the code.
    pub code: i32,
    /// The sentence.
    pub message: String,
    /// The typed error.
    #[serde(default)]
    pub data: Option<RpcError>,
}

impl From<RpcError> for WireError {
    fn from(error: RpcError) -> Self {
        Self { code: error.code.number(), message: error.message.clone(), data: Some(error) }
    }
}

impl From<WireError> for RpcError {
    fn from(error: WireError) -> Self {
        error.data.unwrap_or_else(|| RpcError::new(ErrorCode::Internal, error.message))
    }
}

/// The one notification: an event and its number.
#[derive(Debug, Serialize)]
pub struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: &'a Numbered,
}

/// Name of the notification's method.
pub const EVENT_METHOD: &str = "event";

impl<'a> Notification<'a> {
    /// A notification of `event`.
    pub fn new(event: &'a Numbered) -> Self {
        Self { jsonrpc: "2.0", method: EVENT_METHOD, params: event }
    }
}

/// What a client receives.
#[derive(Debug, Deserialize)]
pub struct Incoming {
    /// Of an answer: the request's number.
    #[serde(default)]
    pub id: Option<u64>,
    /// Of a notification: its method.
    #[serde(default)]
    pub method: Option<String>,
    /// Of a notification: its parameters.
    #[serde(default)]
    pub params: Option<Value>,
    /// Of an answer: the result.
    #[serde(default)]
    pub result: Option<Value>,
    /// Of an answer: the error.
    #[serde(default)]
    pub error: Option<WireError>,
}
