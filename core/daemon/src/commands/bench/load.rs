//! The two ends of a benchmark: a receiver that counts, and a generator that sends through a SOCKS
//! port. Neither may be the bottleneck: the generator sends a file with `sendfile`, and whoever
//! receives lets the kernel throw the bytes away (`MSG_TRUNC`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use culvert_net::random::SystemRandom;
use culvert_wire::random::Random;
use rustix::net::RecvFlags;

/// Bytes of the file that is sent over and over.
const FILE_SIZE: usize = 4 << 20;
/// The most that one call takes from the kernel.
const PIECE: usize = 1 << 20;

/// Which way the bytes go, seen from the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the application to the target.
    Up,
    /// From the target to the application.
    Down,
}

/// A target: each connection to it starts with one byte that says what it is to do.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    received: Arc<AtomicU64>,
}

impl Target {
    /// Opens the target on a free port. Its threads end with the process.
    pub(super) fn start(file: &Arc<File>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let received = Arc::new(AtomicU64::new(0));
        let (counter, file) = (Arc::clone(&received), Arc::clone(file));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counter, file) = (Arc::clone(&counter), Arc::clone(&file));
                // A connection that breaks ends its thread and nothing else.
                std::thread::spawn(move || serve(stream, &counter, &file));
            }
        });
        Ok(Self { address, received })
    }
}

fn serve(mut stream: TcpStream, received: &AtomicU64, file: &File) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    match first[0] {
        b'U' => discard(&stream, received),
        b'D' => send_until(&stream, file, None),
        // Echo one byte: the first byte's round trip.
        _ => stream.write_all(&first),
    }
}

fn discard(stream: &TcpStream, received: &AtomicU64) -> io::Result<()> {
    let mut scratch = vec![0; PIECE];
    loop {
        let (_, length) = rustix::net::recv(stream, &mut scratch[..], RecvFlags::TRUNC)?;
        if length == 0 {
            return Ok(());
        }
        received.fetch_add(length as u64, Ordering::Relaxed);
    }
}

fn send_until(stream: &TcpStream, file: &File, deadline: Option<Instant>) -> io::Result<()> {
    loop {
        let mut offset = 0;
        while (offset as usize) < FILE_SIZE {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(());
            }
            let left = FILE_SIZE - offset as usize;
            rustix::fs::sendfile(stream, file, Some(&mut offset), PIECE.min(left))?;
        }
    }
}

/// A file of bytes that do not compress.
pub(super) fn random_file() -> io::Result<Arc<File>> {
    let mut file = tempfile_in_memory()?;
    let mut bytes = vec![0; FILE_SIZE];
    SystemRandom.fill(&mut bytes);
    file.write_all(&bytes)?;
    Ok(Arc::new(file))
}

fn tempfile_in_memory() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("culvert-bench", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Opens a stream to `target` through the SOCKS 5 port `proxy`.
pub(super) fn through(proxy: SocketAddr, target: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    if let SocketAddr::V4(v4) = target {
        request.extend_from_slice(&v4.ip().octets());
    }
    request.extend_from_slice(&target.port().to_be_bytes());
    stream.write_all(&request)?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    match answer[3] {
        0 => Ok(stream),
        code => Err(io::Error::other(format!("the proxy answered with SOCKS code {code}"))),
    }
}

/// Bytes that arrived in `time` over `connections` connections through `proxy`.
pub(super) fn transfer(
    proxy: SocketAddr,
    target: &Target,
    file: &Arc<File>,
    direction: Direction,
    connections: usize,
    time: Duration,
) -> io::Result<u64> {
    let before = target.received.load(Ordering::Relaxed);
    let counted = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + time;
    let workers: Vec<_> = (0..connections)
        .map(|_| {
            let (file, counted, target) = (Arc::clone(file), Arc::clone(&counted), target.address);
            std::thread::spawn(move || -> io::Result<()> {
                let mut stream = through(proxy, target)?;
                match direction {
                    Direction::Up => {
                        stream.write_all(b"U")?;
                        send_until(&stream, &file, Some(deadline))
                    }
                    Direction::Down => {
                        stream.write_all(b"D")?;
                        let mut scratch = vec![0; PIECE];
                        while Instant::now() < deadline {
                            let (_, length) = rustix::net::recv(&stream, &mut scratch[..], RecvFlags::TRUNC)?;
                            if length == 0 {
                                return Err(io::ErrorKind::UnexpectedEof.into());
                            }
                            counted.fetch_add(length as u64, Ordering::Relaxed);
                        }
                        Ok(())
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| io::Error::other("a load thread ended early"))??;
    }
    Ok(match direction {
        Direction::Up => target.received.load(Ordering::Relaxed) - before,
        Direction::Down => counted.load(Ordering::Relaxed),
    })
}

/// Times from the connect to the first byte back, in microseconds, sorted.
pub(super) fn first_bytes(proxy: SocketAddr, target: &Target, count: usize) -> io::Result<Vec<u64>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        let mut stream = through(proxy, target.address)?;
        stream.write_all(b"E")?;
        stream.read_exact(&mut [0])?;
        times.push(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    times.sort_unstable();
    Ok(times)
}
