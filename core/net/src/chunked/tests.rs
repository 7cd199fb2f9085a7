use super::*;
use culvert_wire::chunk::Opened;
use culvert_wire::random::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

/// Two bytes of length in front, one byte of check behind, every payload byte inverted.
struct Toy {
    most: usize,
}

impl Seal for Toy {
    fn max_payload(&self) -> usize {
        self.most
    }
    fn head(&self) -> usize {
        2
    }
    fn tail(&self) -> usize {
        5
    }
    fn seal(&mut self, chunk: &mut [u8], payload: usize, _random: &mut dyn Random) -> usize {
        chunk[..2].copy_from_slice(&(payload as u16).to_be_bytes());
        chunk[2..2 + payload].iter_mut().for_each(|b| *b = !*b);
        chunk[2 + payload] = 0x55;
        payload + 3
    }
    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0, 0x55]);
    }
}

impl Open for Toy {
    fn max_chunk(&self) -> usize {
        self.most + 3
    }
    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        if input.len() < 2 {
            return Ok(Opened::NeedMore(2));
        }
        let length = usize::from(u16::from_be_bytes([input[0], input[1]]));
        if input.len() < length + 3 {
            return Ok(Opened::NeedMore(length + 3));
        }
        if input[2 + length] != 0x55 {
            return Err(OpenError::Authentication("toy"));
        }
        if length == 0 {
            return Ok(Opened::End { consumed: 3 });
        }
        input[2..2 + length].iter_mut().for_each(|b| *b = !*b);
        Ok(Opened::Chunk { consumed: length + 3, payload: 2..2 + length })
    }
}

fn header() -> Box<dyn Response> {
    Box::new(|input: &mut [u8]| {
        if input.len() < 4 {
            return Ok(Step::NeedMore(4));
        }
        if &input[..4] != b"HEAD" {
            return Err(OpenError::Malformed("no HEAD"));
        }
        Ok(Step::Done { consumed: 4, open: Box::new(Toy { most: 16_384 }) })
    })
}

fn pair<A: Stream, B: Stream>(a: A, b: B) -> (ChunkedStream<A>, ChunkedStream<B>) {
    (
        ChunkedStream::new(a, Box::new(Toy { most: 16_384 }), header()).with_prefix(b"HEAD".to_vec()),
        ChunkedStream::new(b, Box::new(Toy { most: 1000 }), header()).with_prefix(b"HEAD".to_vec()),
    )
}

#[tokio::test]
async fn carries_bytes_both_ways_through_pipes_of_any_size() {
    for size in [1, 7, 4096, 1 << 20] {
        let (a, b) = duplex(size);
        let (mut a, b) = pair(a, b);
        let amount = if size < 100 { 20_000 } else { 3 << 20 };
        let sent: Vec<u8> = (0..amount).map(|i: usize| ((i * 31) >> 3) as u8).collect();
        let expected = sent.clone();
        let echo = tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(b);
            tokio::io::copy(&mut read, &mut write).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut back = Vec::new();
        {
            let (mut read, mut write) = tokio::io::split(&mut a);
            let writing = async {
                write.write_all(&sent).await.unwrap();
                write.shutdown().await.unwrap();
            };
            let (_, result) = tokio::join!(writing, read.read_to_end(&mut back));
            result.unwrap();
        }
        assert!(back == expected, "size {size}");
        echo.await.unwrap();
    }
}

#[tokio::test]
async fn header_goes_with_the_first_payload_in_one_write() {
    let (a, mut b) = duplex(1 << 16);
    let (mut a, _unused) = pair(a, duplex(1).0);
    a.write_all(b"x").await.unwrap();
    let mut wire = [0; 64];
    let length = b.read(&mut wire).await.unwrap();
    assert_eq!(&wire[..length], &[b'H', b'E', b'A', b'D', 0, 1, !b'x', 0x55]);
}

#[tokio::test]
async fn header_goes_alone_when_only_the_server_speaks() {
    let (a, mut b) = duplex(1 << 16);
    let (mut a, _unused) = pair(a, duplex(1).0);
    let server = tokio::spawn(async move {
        let mut wire = [0; 64];
        assert_eq!(b.read(&mut wire).await.unwrap(), 4);
        b.write_all(&[b'H', b'E', b'A', b'D', 0, 1, !b'y', 0x55]).await.unwrap();
        b
    });
    assert_eq!(a.read_u8().await.unwrap(), b'y');
    server.await.unwrap();
}

#[tokio::test]
async fn damage_and_early_ends_are_errors() {
    for (bytes, kind) in [
        (&b"HEADx"[..], io::ErrorKind::UnexpectedEof),
        (b"HE", io::ErrorKind::UnexpectedEof),
        (b"HEAX", io::ErrorKind::InvalidData),
        (&[b'H', b'E', b'A', b'D', 0, 1, 9, 0x54], io::ErrorKind::InvalidData),
    ] {
        let (a, mut b) = duplex(1 << 16);
        let mut a = ChunkedStream::new(a, Box::new(Toy { most: 10 }), header());
        b.write_all(bytes).await.unwrap();
        drop(b);
        let error = a.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{bytes:?}");
    }
}

#[tokio::test]
async fn clear_stream_steps_aside_after_its_headers() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let response = |input: &mut [u8]| {
        Ok(if input.len() < 2 { Step::NeedMore(2) } else { Step::Done { consumed: 2, open: Box::new(Clear) } })
    };
    let mut client = ChunkedStream::new(client, Box::new(Clear), Box::new(response)).with_prefix(b"HEAD".to_vec());
    assert!(client.raw_write().is_none());
    client.write_all(b"abc").await.unwrap();
    client.flush().await.unwrap();
    assert!(client.raw_write().is_some() && client.raw_read().is_none());
    let mut wire = [0; 7];
    server.read_exact(&mut wire).await.unwrap();
    assert_eq!(&wire, b"HEADabc");
    server.write_all(b"\0\0xyz").await.unwrap();
    let mut answer = [0; 3];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"xyz");
    assert!(client.raw_read().is_some());
}

#[tokio::test]
async fn prefix_of_any_size_goes_with_and_without_a_payload() {
    for length in [1, 4096, 20 << 10, 300_000, 1 << 20] {
        for payload in [&b""[..], b"payload"] {
            let (near, mut far) = duplex(4096);
            let prefix: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let stream = ChunkedStream::new(near, Box::new(Toy { most: 1000 }), header());
            let mut stream = stream.with_prefix(prefix.clone());
            let sending = async {
                stream.write_all(payload).await.unwrap();
                stream.shutdown().await.unwrap();
            };
            let mut received = Vec::new();
            let (_, read) = tokio::join!(sending, far.read_to_end(&mut received));
            read.unwrap();
            assert!(received.starts_with(&prefix), "{length}");
            let chunk = if payload.is_empty() { 0 } else { payload.len() + 3 };
            assert_eq!(received.len(), length + chunk + 3, "{length}");
        }
    }
}

#[tokio::test]
async fn prefix_set_after_a_smaller_buffer_was_lent() {
    let (near, mut far) = duplex(4096);
    let mut stream = ChunkedStream::new(near, Box::new(Toy { most: 1000 }), header());
    std::future::poll_fn(|cx| stream.poll_room(cx)).await.unwrap();
    let mut stream = stream.with_prefix(vec![7; 100_000]);
    let sending = async {
        stream.write_all(b"payload").await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, read) = tokio::join!(sending, far.read_to_end(&mut received));
    read.unwrap();
    assert_eq!(received.len(), 100_000 + 10 + 3);
}

#[tokio::test]
async fn halves_work_in_tasks_of_their_own() {
    let (near, far) = duplex(1000);
    let (a, mut b) = pair(near, far);
    let (mut reader, mut writer) = tokio::io::split(a);
    let sent: Vec<u8> = (0..1 << 20).map(|at: u32| (at >> 3) as u8).collect();
    let expected = sent.clone();
    let reading = tokio::spawn(async move { reader.read_u8().await });
    let writing = tokio::spawn(async move {
        writer.write_all(&sent).await?;
        writer.flush().await
    });
    let work = async {
        let mut received = vec![0; expected.len()];
        b.read_exact(&mut received).await.unwrap();
        assert!(received == expected);
        b.write_u8(9).await.unwrap();
        writing.await.unwrap().unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), 9);
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), work).await.unwrap();
}

#[tokio::test]
async fn a_reader_leaves_the_writing_task_its_wake_up() {
    struct Woken(std::sync::atomic::AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let (near, mut far) = duplex(1000);
    let mut stream = ChunkedStream::new(near, Box::new(Toy { most: 1000 }), header());
    stream.write_all(&[1; 5000]).await.unwrap();
    let woken = std::sync::Arc::new(Woken(false.into()));
    let waker = std::task::Waker::from(woken.clone());
    assert!(Pin::new(&mut stream).poll_flush(&mut Context::from_waker(&waker)).is_pending());
    let reader = std::task::Waker::noop();
    assert!(stream.poll_fill(&mut Context::from_waker(reader)).is_pending());
    far.read_exact(&mut [0; 1000]).await.unwrap();
    assert!(woken.0.load(std::sync::atomic::Ordering::Relaxed));
}
