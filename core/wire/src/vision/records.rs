//! Follows the record boundaries of the inner TLS in what we send.

const APPLICATION_DATA: u8 = 23;

/// Where in the stream of records the next byte lies.
#[derive(Debug, Default)]
pub(super) struct Records {
    header: [u8; 5],
    /// Bytes of the header that were seen.
    seen: usize,
    /// Bytes of the body that are to come.
    left: usize,
}

/// What [`Records::follow`] saw in a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The piece begins with, or inside, a record of application data.
    pub(super) starts_in_data: bool,
    /// Where the last complete record of the piece ends (0 when none ends in it).
    pub(super) last_end: usize,
}

impl Records {
    /// Follows the records through `piece`.
    pub(super) fn follow(&mut self, piece: &[u8]) -> Seen {
        let first = if self.seen > 0 { self.header[0] } else { piece.first().copied().unwrap_or(0) };
        let mut seen = Seen { starts_in_data: first == APPLICATION_DATA, last_end: 0 };
        let mut at = 0;
        while at < piece.len() {
            if self.seen < 5 {
                let take = (5 - self.seen).min(piece.len() - at);
                self.header[self.seen..self.seen + take].copy_from_slice(&piece[at..at + take]);
                self.seen += take;
                at += take;
                if self.seen < 5 {
                    break;
                }
                self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            }
            let take = self.left.min(piece.len() - at);
            self.left -= take;
            at += take;
            if self.left == 0 {
                self.seen = 0;
                seen.last_end = at;
            }
        }
        seen
    }
}
