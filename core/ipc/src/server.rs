//! The server's side of the socket.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, Semaphore};

use crate::error::{ErrorCode, RpcError};
use crate::frame::{MAX_FRAME_BYTES, read_frame};
use crate::message::{Notification, Request, Response};
use crate::methods::{Core, Method, StateSubscribe, dispatch, encode, parse};
use crate::outbox::{Outbox, Publisher};
use crate::socket::Listener;
use crate::types::{Nothing, SubscribeParams, Subscribed};

/// Connections at once; more are closed at once.
const MAX_CONNECTIONS: usize = 64;
/// Calls under way on one connection; the next frame is read when one has ended.
const MAX_CALLS: usize = 32;

/// Answers calls on `listener` until it fails for good.
///
/// # Errors
/// The listener's, when it can't accept any more.
pub async fn serve<C: Core>(mut listener: Listener, core: Arc<C>, publisher: Publisher) -> io::Result<()> {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = listener.accept().await?;
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
            tracing::warn!("more than {MAX_CONNECTIONS} programs are connected to the core; one was turned away");
            continue;
        };
        let (core, publisher) = (Arc::clone(&core), publisher.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let (reader, writer) = tokio::io::split(stream);
            if let Err(error) = attend(reader, writer, core, publisher).await {
                tracing::debug!("a connection to the core ended: {error}");
            }
        });
    }
}

/// Answers calls that come over one connection until it ends.
///
/// # Errors
/// Errors of the connection and frames above the limit.
pub async fn attend<C, R, W>(reader: R, writer: W, core: Arc<C>, publisher: Publisher) -> io::Result<()>
where
    C: Core,
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let outbox = publisher.subscribe();
    let writer = Arc::new(Mutex::new(writer));
    let events = tokio::spawn(send_events(Arc::clone(&outbox), Arc::clone(&writer)));
    let outcome = read_calls(reader, &writer, core, &publisher, &outbox).await;
    outbox.close();
    events.abort();
    outcome
}

async fn send_events<W: AsyncWrite + Unpin>(outbox: Arc<Outbox>, writer: Arc<Mutex<W>>) {
    while let Some(event) = outbox.next().await {
        let Ok(text) = serde_json::to_vec(&Notification::new(&event)) else {
            continue;
        };
        if send(&writer, text).await.is_err() {
            break;
        }
    }
}

async fn send<W: AsyncWrite + Unpin>(writer: &Mutex<W>, mut text: Vec<u8>) -> io::Result<()> {
    text.push(b'\n');
    let mut writer = writer.lock().await;
    writer.write_all(&text).await?;
    writer.flush().await
}

async fn read_calls<C, R, W>(
    reader: R,
    writer: &Arc<Mutex<W>>,
    core: Arc<C>,
    publisher: &Publisher,
    outbox: &Arc<Outbox>,
) -> io::Result<()>
where
    C: Core,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let mut reader = BufReader::with_capacity(16 * 1024, reader);
    let mut line = Vec::new();
    let calls = Arc::new(Semaphore::new(MAX_CALLS));
    while read_frame(&mut reader, &mut line, MAX_FRAME_BYTES).await? {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let request = match read_request(&line) {
            Ok(request) => request,
            Err(error) => {
                answer(writer, Value::Null, Err(error)).await?;
                continue;
            }
        };
        if line.capacity() > 64 * 1024 {
            line = Vec::new();
        }
        if request.method == StateSubscribe::NAME {
            let outcome = subscribe(&*core, publisher, outbox, request.params).await;
            if let Some(id) = request.id {
                answer(writer, id, outcome).await?;
            }
            continue;
        }
        let Ok(permit) = Arc::clone(&calls).acquire_owned().await else {
            break;
        };
        let (core, writer) = (Arc::clone(&core), Arc::clone(writer));
        tokio::spawn(async move {
            let outcome = dispatch(&*core, &request.method, request.params).await;
            if let Some(id) = request.id {
                let _ = answer(&writer, id, outcome).await;
            }
            drop(permit);
        });
    }
    Ok(())
}

fn read_request(line: &[u8]) -> Result<Request, RpcError> {
    let request: Request = serde_json::from_slice(line)
        .map_err(|error| RpcError::new(ErrorCode::InvalidRequest, format!("this is no JSON-RPC request: {error}")))?;
    if request.jsonrpc != "2.0" {
        return Err(RpcError::new(ErrorCode::InvalidRequest, "only JSON-RPC 2.0 is spoken here"));
    }
    Ok(request)
}

async fn subscribe<C: Core>(
    core: &C,
    publisher: &Publisher,
    outbox: &Outbox,
    params: Value,
) -> Result<Value, RpcError> {
    let params: SubscribeParams = parse(params)?;
    // The queue starts before the snapshot: what changes in between is heard twice, never missed.
    let seq = outbox.set_topics(params.topics);
    let snapshot = Box::pin(core.state_snapshot(Nothing {})).await?;
    publisher.topics_changed();
    encode(&Subscribed { seq, snapshot })
}

async fn answer<W: AsyncWrite + Unpin>(
    writer: &Mutex<W>,
    id: Value,
    outcome: Result<Value, RpcError>,
) -> io::Result<()> {
    let mut text = serde_json::to_vec(&Response::new(id.clone(), outcome)).map_err(io::Error::other)?;
    if text.len() > MAX_FRAME_BYTES {
        let error = RpcError::new(ErrorCode::TooLarge, "the answer is larger than a frame may be; ask for less")
            .with("what", "answer")
            .with("limit", MAX_FRAME_BYTES);
        text = serde_json::to_vec(&Response::new(id, Err(error))).map_err(io::Error::other)?;
    }
    send(writer, text).await
}
