//! Large byte buffers that exist only while bytes lie in them.
//!
//! A relay takes a buffer when its source is ready and gives it back when everything is sent, so an
//! idle connection holds none, and busy ones share a few that stay warm in the cache. Each thread
//! keeps a small stock; a budget over the whole process makes buffers smaller when many
//! connections are stuck with bytes in theirs.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sizes of the classes, in bytes. The second holds one 16 KiB chunk with its head and tail, the
/// last sixteen of them.
const CLASSES: [usize; 4] = [4 << 10, 20 << 10, 72 << 10, 288 << 10];
/// How many buffers of each class a thread keeps in stock.
const STOCK: [usize; 4] = [64, 32, 16, 4];
/// While more than this many bytes are lent out, a new buffer is at most of this class.
const BUDGETS: [(usize, usize); 2] = [(64 << 20, 1), (16 << 20, 2)];

static LENT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHELF: RefCell<[Vec<Vec<u8>>; 4]> = const { RefCell::new([const { Vec::new() }; 4]) };
}

/// How large the next buffer of one direction should be; grows while reads fill what they get.
#[derive(Debug, Clone, Copy)]
pub struct Appetite {
    class: usize,
    small_reads: u8,
}

impl Default for Appetite {
    fn default() -> Self {
        Self { class: 1, small_reads: 0 }
    }
}

impl Appetite {
    /// Learns from a read that put `read` bytes into a place of `room`.
    pub fn learn(&mut self, read: usize, room: usize) {
        if read >= room {
            self.class = (self.class + 1).min(CLASSES.len() - 1);
            self.small_reads = 0;
        } else if read < room / 8 {
            self.small_reads += 1;
            if self.small_reads >= 16 {
                self.class = self.class.saturating_sub(1).max(1);
                self.small_reads = 0;
            }
        } else {
            self.small_reads = 0;
        }
    }
}

/// A buffer of fixed length that returns to its thread's stock when dropped.
pub struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    /// A buffer of at least `least` bytes, larger as `appetite` and the budget allow. What its
    /// bytes are is unspecified (another connection's, maybe: never send what was not written).
    pub fn take(least: usize, appetite: Appetite) -> Self {
        let lent = LENT.load(Ordering::Relaxed);
        let limit = BUDGETS.iter().find(|(bytes, _)| lent > *bytes).map_or(CLASSES.len() - 1, |(_, class)| *class);
        let wanted = CLASSES[appetite.class.min(limit)].max(least);
        Self::of(wanted)
    }

    /// The smallest buffer that holds `least` bytes.
    pub fn of(least: usize) -> Self {
        let class = CLASSES.iter().position(|size| *size >= least);
        let bytes = match class {
            Some(class) => SHELF
                .try_with(|shelf| shelf.borrow_mut()[class].pop())
                .ok()
                .flatten()
                .unwrap_or_else(|| vec![0; CLASSES[class]]),
            None => vec![0; least],
        };
        LENT.fetch_add(bytes.len(), Ordering::Relaxed);
        Self { bytes }
    }

    /// Whether a buffer for `least` bytes would be smaller than this one.
    pub fn is_roomy_for(&self, least: usize) -> bool {
        CLASSES.iter().find(|size| **size >= least).is_some_and(|size| *size < self.bytes.len())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        LENT.fetch_sub(bytes.len(), Ordering::Relaxed);
        if let Some(class) = CLASSES.iter().position(|size| *size == bytes.len()) {
            // The stock is gone when the thread is ending; then the bytes are simply freed.
            let _ = SHELF.try_with(|shelf| {
                let stock = &mut shelf.borrow_mut()[class];
                if stock.len() < STOCK[class] {
                    stock.push(bytes);
                }
            });
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_full_reads_and_shrinks_with_small_ones() {
        let mut appetite = Appetite::default();
        assert_eq!(Buffer::take(1, appetite).len(), 20 << 10);
        appetite.learn(10, 10);
        appetite.learn(10, 10);
        appetite.learn(10, 10);
        assert_eq!(Buffer::take(1, appetite).len(), 288 << 10);
        for _ in 0..64 {
            appetite.learn(1, 100);
        }
        assert_eq!(Buffer::take(1, appetite).len(), 20 << 10);
        assert_eq!(Buffer::take(300 << 10, appetite).len(), 300 << 10);
    }
}
