//! Finds out what the inner connection is by looking at its first pieces, in both directions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pieces that are looked at.
const WINDOW: u32 = 8;
/// The supported_versions extension of a ServerHello that chose TLS 1.3.
const TLS13: &[u8] = &[0, 0x2b, 0, 2, 3, 4];

/// What is known about the inner connection.
#[derive(Debug)]
pub struct Filter {
    left: u32,
    tls: bool,
    server_hello_seen: bool,
    direct: bool,
    cipher: u16,
    /// Bytes of the server's first record that are still to be searched.
    remaining: Option<usize>,
    /// The end of the piece before, in which the extension may have begun.
    carried: Vec<u8>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            left: WINDOW,
            tls: false,
            server_hello_seen: false,
            direct: false,
            cipher: 0,
            remaining: None,
            carried: Vec::new(),
        }
    }
}

impl Filter {
    /// Looks at the next piece of content, of either direction.
    pub fn observe(&mut self, piece: &[u8]) {
        if self.left == 0 || piece.is_empty() {
            return;
        }
        self.left -= 1;
        if let [0x16, 3, minor, high, low, kind, ..] = *piece {
            if kind == 2 && minor == 3 {
                let length = usize::from(u16::from_be_bytes([high, low]));
                self.remaining = Some(length + 5);
                self.tls = true;
                self.server_hello_seen = true;
                self.carried.clear();
                if piece.len() >= 79 && length + 5 >= 79 {
                    let at = 44 + usize::from(piece[43]);
                    self.cipher = piece.get(at..at + 2).map_or(0, |code| u16::from_be_bytes([code[0], code[1]]));
                }
            } else if kind == 1 {
                self.tls = true;
            }
        }
        if let Some(remaining) = self.remaining.take() {
            let end = remaining.min(piece.len());
            let mut searched = std::mem::take(&mut self.carried);
            searched.extend_from_slice(&piece[..end]);
            if searched.windows(TLS13.len()).any(|window| window == TLS13) {
                self.direct = matches!(self.cipher, 0x1301..=0x1304);
                self.left = 0;
            } else if remaining <= piece.len() {
                self.left = 0;
            } else {
                self.remaining = Some(remaining - end);
                let keep = searched.len().saturating_sub(TLS13.len() - 1);
                self.carried = searched.split_off(keep);
            }
        }
    }

    /// Whether the inner connection is TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Whether a ServerHello of TLS 1.2 or 1.3 was seen.
    pub fn is_tls12_or_newer(&self) -> bool {
        self.server_hello_seen
    }

    /// Whether the inner connection is TLS 1.3 with a known cipher: its records may go outside.
    pub fn may_go_direct(&self) -> bool {
        self.direct
    }

    /// Pieces that will still be looked at.
    pub fn left(&self) -> u32 {
        self.left
    }
}

/// One connection's filter, shared by its two directions.
#[derive(Debug, Clone, Default)]
pub struct SharedFilter(Arc<Mutex<Filter>>);

impl SharedFilter {
    pub(super) fn lock(&self) -> MutexGuard<'_, Filter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
