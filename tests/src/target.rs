//! Targets on loopback: one TCP port that echoes, swallows or sends, and one UDP port that echoes.
//!
//! The first byte of a connection chooses: `E` echoes until the end, and then ends too; `U` takes a
//! length (8 bytes) and so many bytes, and answers with their SHA-256; `D` takes a length and sends
//! so many bytes and their SHA-256.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

/// Targets that run until dropped.
pub struct Target {
    /// Where TCP is served.
    pub tcp: SocketAddr,
    /// Where UDP is echoed.
    pub udp: SocketAddr,
    accepted: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Target {
    /// Starts the targets.
    ///
    /// # Errors
    ///
    /// When loopback has no free port.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let (tcp, udp) = (listener.local_addr()?, socket.local_addr()?);
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let serve = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move { serve(stream).await });
            }
        });
        let echo = tokio::spawn(async move {
            let mut packet = vec![0; 65_536];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                let _ = socket.send_to(&packet[..length], from).await;
            }
        });
        Ok(Self { tcp, udp, accepted, tasks: vec![serve, echo] })
    }

    /// TCP connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    match stream.read_u8().await? {
        b'E' => loop {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                return stream.shutdown().await;
            }
            stream.write_all(&buffer[..count]).await?;
        },
        b'U' => {
            let mut left = stream.read_u64().await?;
            let mut hash = Sha256::new();
            while left > 0 {
                let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let count = stream.read(&mut buffer[..room]).await?;
                if count == 0 {
                    return Ok(());
                }
                hash.update(&buffer[..count]);
                left -= count as u64;
            }
            stream.write_all(&hash.finalize()).await?;
            stream.shutdown().await
        }
        b'D' => {
            let mut left = stream.read_u64().await?;
            let mut hash = Sha256::new();
            let mut noise = Noise::new(left);
            while left > 0 {
                let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                noise.fill(&mut buffer[..count]);
                hash.update(&buffer[..count]);
                stream.write_all(&buffer[..count]).await?;
                left -= count as u64;
            }
            stream.write_all(&hash.finalize()).await?;
            stream.shutdown().await
        }
        _ => Ok(()),
    }
}

/// Bytes that don't repeat and don't compress, the same for the same seed.
pub struct Noise(u64);

impl Noise {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Fills `buffer` with what comes next.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            piece.copy_from_slice(&self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()[..piece.len()]);
        }
    }
}
