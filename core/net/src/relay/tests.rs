use super::*;
use crate::chunked::{ChunkedStream, Clear, NoHeader};
use crate::stream::BoxStream;
use culvert_wire::websocket::{FrameOpen, FrameSeal, Role};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

fn random(amount: usize) -> Vec<u8> {
    let mut bytes = vec![0; amount];
    aws_lc_rs::rand::fill(&mut bytes).unwrap();
    bytes
}

/// The kinds of stream that a relay meets: a socket, frames over a socket, a memory pipe, a
/// stepped-aside format, frames over a memory pipe.
const KINDS: usize = 5;

/// An outer end for the test and the relay's end, of one kind.
async fn ends(kind: usize) -> (BoxStream, BoxStream) {
    fn frames<S: Stream + 'static>(stream: S, role: Role) -> BoxStream {
        let open = NoHeader::new(Box::new(FrameOpen::default()));
        Box::new(ChunkedStream::new(stream, Box::new(FrameSeal::new(role)), Box::new(open)))
    }
    fn pipe() -> (DuplexStream, DuplexStream) {
        duplex(10_000)
    }
    match kind {
        0 | 1 | 3 => {
            let (near, far) = sockets().await;
            match kind {
                0 => (Box::new(near), Box::new(far)),
                1 => (frames(near, Role::Client), frames(far, Role::Server)),
                _ => {
                    let open = NoHeader::new(Box::new(Clear));
                    (Box::new(near), Box::new(ChunkedStream::new(far, Box::new(Clear), Box::new(open))))
                }
            }
        }
        2 => {
            let (near, far) = pipe();
            (Box::new(near), Box::new(far))
        }
        _ => {
            let (near, far) = pipe();
            (frames(near, Role::Server), frames(far, Role::Client))
        }
    }
}

async fn send_and_end(stream: &mut (impl tokio::io::AsyncWrite + Unpin), bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
}

#[tokio::test]
async fn every_pair_of_kinds_carries_equal_bytes_and_each_end_alone() {
    for left in 0..KINDS {
        for right in 0..KINDS {
            let (client, mut a) = ends(left).await;
            let (remote, mut b) = ends(right).await;
            let counters = Arc::new(Counters::default());
            let counted = Arc::clone(&counters);
            let task = tokio::spawn(async move { relay(&mut a, &mut b, &counted, Limits::default()).await });
            let (up, down) = (random(3_000_001), random(2_500_003));
            let (mut client_read, mut client_write) = tokio::io::split(client);
            let (mut remote_read, mut remote_write) = tokio::io::split(remote);
            // Up ends first; down starts only after that end has arrived.
            let (mut got_up, mut got_down) = (Vec::new(), Vec::new());
            let client_side = async {
                send_and_end(&mut client_write, &up).await;
                client_read.read_to_end(&mut got_down).await.unwrap();
            };
            let remote_side = async {
                remote_read.read_to_end(&mut got_up).await.unwrap();
                send_and_end(&mut remote_write, &down).await;
            };
            let both = async { tokio::join!(client_side, remote_side) };
            tokio::time::timeout(Duration::from_secs(30), both)
                .await
                .unwrap_or_else(|_| panic!("{left} {right} hangs"));
            assert!(got_up == up && got_down == down, "{left} {right}");
            let end = task.await.unwrap();
            assert!(matches!(end, RelayEnd::Finished), "{left} {right}: {end:?}");
            assert_eq!((counters.up(), counters.down()), (up.len() as u64, down.len() as u64), "{left} {right}");
        }
    }
}

#[tokio::test]
async fn small_messages_pass_at_once_and_are_counted_live() {
    for left in 0..KINDS {
        let (mut client, mut a) = ends(left).await;
        let (mut remote, mut b) = ends(0).await;
        let counters = Arc::new(Counters::default());
        let counted = Arc::clone(&counters);
        let task = tokio::spawn(async move { relay(&mut a, &mut b, &counted, Limits::default()).await });
        for turn in 1..=20 {
            let mut byte = [0; 3];
            client.write_all(b"abc").await.unwrap();
            client.flush().await.unwrap();
            remote.read_exact(&mut byte).await.unwrap();
            remote.write_all(b"xyz").await.unwrap();
            client.read_exact(&mut byte).await.unwrap();
            assert_eq!(&byte, b"xyz");
            assert_eq!(counters.up(), 3 * turn);
        }
        task.abort();
    }
}

#[tokio::test]
async fn quiet_flows_end_after_their_limits() {
    let limits = Limits { idle: Duration::from_millis(300), half_closed: Duration::from_millis(80) };
    for (close, expected) in [(false, "Idle"), (true, "HalfClosed")] {
        let (mut client, mut a) = sockets().await;
        let (remote, mut b) = sockets().await;
        if close {
            client.shutdown().await.unwrap();
        }
        let end = relay(&mut a, &mut b, &Counters::default(), limits).await;
        assert_eq!(format!("{end:?}"), expected);
        drop(remote);
    }
}

#[tokio::test]
async fn two_hundred_flows_at_once() {
    let payload = Arc::new(random(200_000));
    let mut flows = Vec::new();
    for _ in 0..200 {
        let payload = Arc::clone(&payload);
        flows.push(tokio::spawn(async move {
            let (client, mut a) = ends(0).await;
            let (remote, mut b) = ends(1).await;
            let task =
                tokio::spawn(async move { relay(&mut a, &mut b, &Counters::default(), Limits::default()).await });
            let echo = tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(remote);
                tokio::io::copy(&mut read, &mut write).await.unwrap();
                write.shutdown().await.unwrap();
            });
            let (mut read, mut write) = tokio::io::split(client);
            let mut back = Vec::new();
            let (_, got) = tokio::join!(send_and_end(&mut write, &payload), read.read_to_end(&mut back));
            got.unwrap();
            assert!(back == *payload);
            echo.await.unwrap();
            assert!(matches!(task.await.unwrap(), RelayEnd::Finished));
        }));
    }
    for flow in flows {
        flow.await.unwrap();
    }
}
