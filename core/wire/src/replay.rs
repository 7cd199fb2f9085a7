//! Refusing what was seen before: salts and identifiers in a time window, and packet numbers.

use std::collections::HashSet;
use std::hash::Hash;

/// Remembers values for at least `window` seconds and at most twice that, in two generations.
///
/// Holds at most `limit` values a generation; when a generation is full, new values are refused:
/// an attacker can't fill it, since only values of authenticated requests are put in.
#[derive(Debug)]
pub struct SeenRecently<T> {
    window: u64,
    limit: usize,
    turned: u64,
    current: HashSet<T>,
    previous: HashSet<T>,
}

impl<T: Eq + Hash> SeenRecently<T> {
    /// Remembers for `window` seconds, at most `limit` values a window.
    pub fn new(window: u64, limit: usize) -> Self {
        Self { window, limit, turned: 0, current: HashSet::new(), previous: HashSet::new() }
    }

    /// Whether `value` is new at `now` (seconds, any steady count); remembers it.
    pub fn admit(&mut self, value: T, now: u64) -> bool {
        let age = now.saturating_sub(self.turned);
        if age >= self.window {
            self.previous = std::mem::take(&mut self.current);
            if age >= self.window.saturating_mul(2) {
                self.previous.clear();
            }
            self.turned = now;
        }
        if self.previous.contains(&value) || self.current.len() >= self.limit {
            return false;
        }
        self.current.insert(value)
    }
}

const WORDS: usize = 32;

/// A sliding window over the packet numbers of one session.
#[derive(Debug, Clone)]
pub struct PacketWindow {
    /// One above the greatest number admitted.
    next: u64,
    bits: [u64; WORDS],
}

impl Default for PacketWindow {
    fn default() -> Self {
        Self { next: 0, bits: [0; WORDS] }
    }
}

impl PacketWindow {
    /// Numbers that may arrive out of order, counted back from the greatest. One word less than the
    /// ring holds, so that clearing a word never forgets a number inside the window.
    pub const SIZE: u64 = (WORDS as u64 - 1) * 64;

    /// Whether `number` is new; remembers it. `u64::MAX` is never admitted.
    pub fn admit(&mut self, number: u64) -> bool {
        if number == u64::MAX {
            return false;
        }
        if number >= self.next {
            let (from, to) = (self.next.wrapping_sub(1) / 64, number / 64);
            // With nothing admitted yet every word is clear already.
            if self.next > 0 {
                for word in (from + 1..=to).take(WORDS) {
                    self.bits[(word % WORDS as u64) as usize] = 0;
                }
                if to - from >= WORDS as u64 {
                    self.bits = [0; WORDS];
                }
            }
            self.next = number + 1;
        } else if self.next - 1 - number >= Self::SIZE {
            return false;
        }
        let word = &mut self.bits[((number / 64) % WORDS as u64) as usize];
        let bit = 1u64 << (number % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_remembered_for_the_window() {
        let mut seen = SeenRecently::new(60, 10);
        assert!(seen.admit(1, 1000));
        assert!(!seen.admit(1, 1059));
        assert!(!seen.admit(1, 1060));
        assert!(!seen.admit(1, 1100));
        assert!(seen.admit(1, 1121));
    }

    #[test]
    fn a_full_table_refuses() {
        let mut seen = SeenRecently::new(60, 2);
        assert!(seen.admit(1, 0) && seen.admit(2, 0));
        assert!(!seen.admit(3, 0));
        assert!(seen.admit(3, 60));
    }

    #[test]
    fn packets_pass_once_and_only_inside_the_window() {
        let mut window = PacketWindow::default();
        assert!(window.admit(0));
        assert!(!window.admit(0));
        assert!(window.admit(5));
        assert!(window.admit(3));
        assert!(!window.admit(3));
        assert!(window.admit(PacketWindow::SIZE + 5));
        assert!(window.admit(6));
        assert!(!window.admit(5), "left the window");
        assert!(window.admit(1 << 40));
        assert!(window.admit((1 << 40) - 1));
        assert!(!window.admit(PacketWindow::SIZE + 6));
        assert!(!window.admit(u64::MAX));
    }

    #[test]
    fn every_number_of_a_shuffled_run_passes_once() {
        let mut window = PacketWindow::default();
        for block in 0..200u64 {
            for k in 0..50 {
                assert!(window.admit(block * 50 + (k * 7) % 50));
            }
            for k in 0..50 {
                assert!(!window.admit(block * 50 + k));
            }
        }
    }
}
