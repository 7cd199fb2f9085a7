//! The client's side of the socket.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use crate::error::RpcError;
use crate::event::Numbered;
use crate::frame::{MAX_FRAME_BYTES, read_frame};
use crate::message::{EVENT_METHOD, Incoming, OutgoingRequest};
use crate::methods::Method;
use crate::socket;

/// Events that wait for the caller; the reading side stops when they are full, and the core then
/// joins what it has not sent.
const EVENT_QUEUE: usize = 64;

/// Why a call brought no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket can't be opened, or broke.
    #[error("the core can't be reached: {0}")]
    Io(#[from] io::Error),
    /// The core ended the connection.
    #[error("the core ended the connection")]
    Closed,
    /// The core refused, or failed.
    #[error("{0}")]
    Refused(#[from] RpcError),
    /// The answer has another form than expected.
    #[error("the core's answer can't be read: {0}")]
    Answer(#[from] serde_json::Error),
}

type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>>>>;

/// A connection to the core. Calls may run at once.
pub struct Client {
    writer: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    waiting: Waiting,
    next_id: std::sync::atomic::AtomicU64,
    reader: tokio::task::JoinHandle<()>,
}

impl Client {
    /// Connects to the core that listens at `path`. Answers with the client and its events.
    ///
    /// # Errors
    /// Those of the socket: `NotFound` and `ConnectionRefused` mean that no core runs.
    pub async fn connect(path: &Path) -> Result<(Self, mpsc::Receiver<Numbered>), ClientError> {
        let (reader, writer) = tokio::io::split(socket::connect(path).await?);
        Ok(Self::over(reader, writer))
    }

    /// A client over any pair of streams.
    pub fn over<R, W>(reader: R, writer: W) -> (Self, mpsc::Receiver<Numbered>)
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (events, receiver) = mpsc::channel(EVENT_QUEUE);
        let reader = tokio::spawn(read(reader, Arc::clone(&waiting), events));
        let client = Self {
            writer: tokio::sync::Mutex::new(Box::new(writer)),
            waiting,
            next_id: std::sync::atomic::AtomicU64::new(1),
            reader,
        };
        (client, receiver)
    }

    /// Calls `M`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, ClientError> {
        let params = serde_json::to_value(params)?;
        Ok(serde_json::from_value(self.call_raw(M::NAME, params).await?)?)
    }

    /// Calls `method` with untyped parameters.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn call_raw(&self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = self.next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut text = serde_json::to_vec(&OutgoingRequest { jsonrpc: "2.0", id, method, params })?;
        text.push(b'\n');
        let (sender, receiver) = oneshot::channel();
        match &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(ClientError::Closed),
        };
        {
            let mut writer = self.writer.lock().await;
            writer.write_all(&text).await?;
            writer.flush().await?;
        }
        Ok(receiver.await.map_err(|_| ClientError::Closed)??)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read<R: AsyncRead + Unpin>(reader: R, waiting: Waiting, events: mpsc::Sender<Numbered>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while matches!(read_frame(&mut reader, &mut line, MAX_FRAME_BYTES + 1024).await, Ok(true)) {
        let Ok(incoming) = serde_json::from_slice::<Incoming>(&line) else {
            break;
        };
        if let Some(id) = incoming.id {
            let sender =
                waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(|all| all.remove(&id));
            if let Some(sender) = sender {
                let outcome = match incoming.error {
                    Some(error) => Err(error.into()),
                    None => Ok(incoming.result.unwrap_or(Value::Null)),
                };
                let _ = sender.send(outcome);
            }
        } else if incoming.method.as_deref() == Some(EVENT_METHOD) {
            // Events of a newer core that this client doesn't know are passed over.
            let event = incoming.params.and_then(|params| serde_json::from_value::<Numbered>(params).ok());
            if let Some(event) = event
                && events.send(event).await.is_err()
            {
                // Nobody listens; calls go on.
                continue;
            }
        }
    }
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
}
