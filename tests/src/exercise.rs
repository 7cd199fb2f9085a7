//! What every protocol has to do against every peer.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use culvert_net::datagram::Datagram;
use culvert_net::dial::Dialer;
use culvert_net::outbound::{ConnectRequest, Outbound};
use culvert_net::stream::BoxStream;
use culvert_wire::Destination;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::peer::full;
use crate::target::{Noise, Target};

/// One step may take so long.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// What is known to be otherwise with a peer.
#[derive(Debug, Clone, Copy)]
pub struct Expect {
    /// Whether the peer keeps a half-closed connection open.
    pub half_close: bool,
    /// Whether UDP is to work.
    pub udp: bool,
}

/// An outbound for a node, given as the JSON of `culvert-core parse --json`.
///
/// # Panics
///
/// When the JSON is no node, or none that can be used.
pub fn outbound(node: serde_json::Value) -> Outbound {
    let node = match serde_json::from_value(node) {
        Ok(node) => node,
        Err(error) => panic!("no node: {error}"),
    };
    match Outbound::from_node(&node) {
        Ok(outbound) => outbound,
        Err(error) => panic!("the node can't be used: {error}"),
    }
}

/// A SOCKS 5 proxy on loopback as an outbound: a peer's client.
///
/// # Panics
///
/// Never, unless the node format changes.
pub fn socks(port: u16) -> Outbound {
    outbound(serde_json::json!({
        "name": "", "address": "127.0.0.1", "port": port, "protocol": "socks", "version": "5"
    }))
}

/// Moves bytes both ways with equal hashes, half-closes, many connections and datagrams.
///
/// # Errors
///
/// When a connection fails.
///
/// # Panics
///
/// When something arrives that was not sent.
pub async fn exercise(outbound: Outbound, target: &Target, expect: Expect) -> io::Result<()> {
    let outbound = Arc::new(outbound);
    let (bytes, parallel) = if full() { (64 << 20, 200) } else { (4 << 20, 20) };
    step("upload", upload(&outbound, target, bytes)).await?;
    step("download", download(&outbound, target, bytes)).await?;
    step("half-close", half_close(&outbound, target, expect.half_close)).await?;
    step("first payload", first_payload(&outbound, target)).await?;
    let destination: Destination = target.tcp.into();
    let tasks: Vec<_> = (0..parallel)
        .map(|seed| {
            let (outbound, destination) = (outbound.clone(), destination.clone());
            tokio::spawn(async move { echo(&outbound, destination, seed).await })
        })
        .collect();
    for task in tasks {
        step("parallel", async { task.await.map_err(io::Error::other)? }).await?;
    }
    if expect.udp {
        step("datagrams", datagrams(&outbound, target)).await?;
    }
    Ok(())
}

async fn step<T>(name: &str, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(STEP_LIMIT, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} took too long"))),
    }
}

/// Connects through `outbound`, with nothing sent yet.
///
/// # Errors
///
/// When the connection fails.
pub async fn connect(outbound: &Outbound, destination: Destination) -> io::Result<BoxStream> {
    let request = ConnectRequest { destination, first_payload: Bytes::new() };
    let connected = outbound.connect(&Dialer::default(), request).await.map_err(io::Error::other)?;
    Ok(connected.stream)
}

async fn upload(outbound: &Outbound, target: &Target, bytes: u64) -> io::Result<()> {
    let mut stream = connect(outbound, target.tcp.into()).await?;
    stream.write_u8(b'U').await?;
    stream.write_u64(bytes).await?;
    let (mut noise, mut hash) = (Noise::new(1), Sha256::new());
    let mut buffer = vec![0; 200_000];
    let mut left = bytes;
    while left > 0 {
        let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        noise.fill(&mut buffer[..count]);
        hash.update(&buffer[..count]);
        stream.write_all(&buffer[..count]).await?;
        left -= count as u64;
    }
    stream.flush().await?;
    let mut answer = [0; 32];
    stream.read_exact(&mut answer).await?;
    assert_eq!(answer[..], hash.finalize()[..], "the target received other bytes");
    Ok(())
}

async fn download(outbound: &Outbound, target: &Target, bytes: u64) -> io::Result<()> {
    let mut stream = connect(outbound, target.tcp.into()).await?;
    stream.write_u8(b'D').await?;
    stream.write_u64(bytes).await?;
    stream.flush().await?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 200_000];
    let mut left = bytes;
    while left > 0 {
        let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = stream.read(&mut buffer[..room]).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hash.update(&buffer[..count]);
        left -= count as u64;
    }
    let mut sent = [0; 32];
    stream.read_exact(&mut sent).await?;
    assert_eq!(sent[..], hash.finalize()[..], "other bytes arrived than the target sent");
    assert_eq!(stream.read(&mut buffer).await?, 0, "more bytes arrived than the target sent");
    Ok(())
}

async fn half_close(outbound: &Outbound, target: &Target, kept: bool) -> io::Result<()> {
    let mut stream = connect(outbound, target.tcp.into()).await?;
    // Enough that a good part is still on its way when our direction ends.
    let amount = if kept { 1 << 20 } else { 1000 };
    let mut sent = vec![0; amount];
    Noise::new(2).fill(&mut sent);
    stream.write_u8(b'E').await?;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let expected = sent.clone();
    let writing = async move {
        writer.write_all(&sent).await?;
        writer.shutdown().await
    };
    let mut echoed = Vec::new();
    let (wrote, read) = tokio::join!(writing, reader.read_to_end(&mut echoed));
    wrote?;
    match read {
        Ok(_) => {}
        Err(error) if kept => return Err(error),
        Err(_) => {}
    }
    assert!(echoed == expected || !kept && expected.starts_with(&echoed), "the echo differs after a half-close");
    Ok(())
}

async fn first_payload(outbound: &Outbound, target: &Target) -> io::Result<()> {
    let mut payload = vec![0; 100_001];
    Noise::new(3).fill(&mut payload);
    payload[0] = b'E';
    let request = ConnectRequest { destination: target.tcp.into(), first_payload: payload.clone().into() };
    let connected = outbound.connect(&Dialer::default(), request).await.map_err(io::Error::other)?;
    let mut stream = connected.stream;
    let mut echoed = vec![0; payload.len() - 1];
    stream.read_exact(&mut echoed).await?;
    assert!(echoed == payload[1..], "the first payload came back changed");
    Ok(())
}

async fn echo(outbound: &Outbound, destination: Destination, seed: u64) -> io::Result<()> {
    let mut stream = connect(outbound, destination).await?;
    stream.write_u8(b'E').await?;
    let (mut sent, mut echoed) = (vec![0; 20_000], vec![0; 20_000]);
    let mut noise = Noise::new(seed);
    for _ in 0..3 {
        noise.fill(&mut sent);
        stream.write_all(&sent).await?;
        stream.flush().await?;
        stream.read_exact(&mut echoed).await?;
        assert!(echoed == sent, "the echo of connection {seed} differs");
    }
    Ok(())
}

async fn datagrams(outbound: &Outbound, target: &Target) -> io::Result<()> {
    let mut flow = outbound.associate(&Dialer::default()).await.map_err(io::Error::other)?.flow;
    for round in 0..5u8 {
        let mut payload = vec![round; 1400];
        Noise::new(round.into()).fill(&mut payload);
        // A datagram may be lost; an echo that keeps missing is an error.
        let mut tries = 0;
        loop {
            let datagram = Datagram { peer: target.udp.into(), payload: BytesMut::from(&payload[..]) };
            let mut batch = VecDeque::from([datagram]);
            while !batch.is_empty() {
                poll_fn(|cx| flow.poll_send(cx, &mut batch)).await?;
            }
            let mut received = Vec::new();
            let waiting = poll_fn(|cx| flow.poll_receive(cx, &mut received, 1));
            match tokio::time::timeout(Duration::from_secs(2), waiting).await {
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(_)) => {
                    assert_eq!(received[0].payload[..], payload[..], "a datagram came back changed");
                    break;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) if tries < 4 => tries += 1,
                Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no echo of a datagram")),
            }
        }
    }
    Ok(())
}

/// A wrong secret: nothing reaches the target, and the reader is told within `limit`, in words if
/// the peer closes at all.
///
/// # Errors
///
/// When the connection to the peer itself fails.
///
/// # Panics
///
/// When anything came through.
pub async fn refused(outbound: &Outbound, target: &Target, limit: Duration) -> io::Result<Option<String>> {
    let before = target.accepted();
    let mut stream = connect(outbound, target.tcp.into()).await?;
    let _ = stream.write_all(b"Eplaintext").await;
    let _ = stream.flush().await;
    let mut byte = [0];
    let told = match tokio::time::timeout(limit, stream.read(&mut byte)).await {
        Ok(Ok(count)) => {
            assert_eq!(count, 0, "something answered a wrong secret");
            Some(String::new())
        }
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => None,
    };
    assert_eq!(target.accepted(), before, "a wrong secret reached the target");
    Ok(told)
}
