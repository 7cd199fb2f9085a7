//! Socket to socket through a pipe: the bytes never enter this process.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::direction::Failure;

/// Sizes to ask for. An ordinary user may have 64 MiB in pipes together
/// (`/proc/sys/fs/pipe-user-pages-soft`), after which larger ones are refused.
const SIZES: [usize; 3] = [1 << 20, 256 << 10, 64 << 10];
/// Empty pipes that a thread keeps.
const STOCK: usize = 16;

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    size: usize,
}

thread_local! {
    static SHELF: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

impl Pipe {
    fn take() -> io::Result<Self> {
        if let Some(pipe) = SHELF.try_with(|shelf| shelf.borrow_mut().pop()).ok().flatten() {
            return Ok(pipe);
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let size = SIZES.iter().find_map(|size| fcntl_setpipe_size(&write, *size).ok()).unwrap_or(64 << 10);
        Ok(Self { read, write, size })
    }

    /// Keeps an empty pipe for the next who needs one.
    fn put_back(self) {
        let _ = SHELF.try_with(|shelf| {
            let mut shelf = shelf.borrow_mut();
            if shelf.len() < STOCK {
                shelf.push(self);
            }
        });
    }
}

/// One direction's pipe, held only while bytes lie in it.
#[derive(Default)]
pub(super) struct Splice {
    pipe: Option<Pipe>,
    held: usize,
    refused: bool,
}

impl Splice {
    /// Whether the kernel has not refused yet.
    pub(super) fn is_possible(&self) -> bool {
        !self.refused
    }

    /// Moves what is there; 0 is the end of the source. `None` when there is no pipe to be had, or
    /// these sockets can't be spliced: copy instead.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &TcpStream,
        to: &TcpStream,
        count: &AtomicU64,
    ) -> Option<Poll<Result<usize, Failure>>> {
        if self.held == 0 {
            match self.poll_in(cx, from) {
                Poll::Pending => return Some(Poll::Pending),
                Poll::Ready(Ok(0)) => {
                    if let Some(pipe) = self.pipe.take() {
                        pipe.put_back();
                    }
                    return Some(Poll::Ready(Ok(0)));
                }
                Poll::Ready(Ok(amount)) => self.held = amount,
                Poll::Ready(Err(error)) => {
                    self.pipe = None;
                    // No more descriptors, or a socket that can't: copying may still work, and if
                    // the socket itself is broken it will say so.
                    self.refused = true;
                    tracing::trace!("no splice: {error}");
                    return None;
                }
            }
        }
        Some(self.poll_out(cx, to, count))
    }

    fn poll_in(&mut self, cx: &mut Context<'_>, from: &TcpStream) -> Poll<io::Result<usize>> {
        loop {
            ready!(from.poll_read_ready(cx))?;
            let pipe = match &mut self.pipe {
                Some(pipe) => pipe,
                empty => empty.insert(Pipe::take()?),
            };
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let moved = from.try_io(Interest::READABLE, || {
                splice(from, None, &pipe.write, None, pipe.size, flags).map_err(io::Error::from)
            });
            match moved {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(pipe) = self.pipe.take() {
                        pipe.put_back();
                    }
                }
                moved => return Poll::Ready(moved),
            }
        }
    }

    fn poll_out(&mut self, cx: &mut Context<'_>, to: &TcpStream, count: &AtomicU64) -> Poll<Result<usize, Failure>> {
        let writing = |error| Failure { reading: false, error };
        let mut total = 0;
        while self.held > 0 {
            ready!(to.poll_write_ready(cx)).map_err(writing)?;
            let Some(pipe) = &self.pipe else { break };
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let moved = to.try_io(Interest::WRITABLE, || {
                splice(&pipe.read, None, to, None, self.held, flags).map_err(io::Error::from)
            });
            match moved {
                Ok(0) => return Poll::Ready(Err(writing(io::ErrorKind::WriteZero.into()))),
                Ok(amount) => {
                    self.held -= amount;
                    total += amount;
                    count.fetch_add(amount as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(writing(error))),
            }
        }
        Poll::Ready(Ok(total.max(1)))
    }
}
