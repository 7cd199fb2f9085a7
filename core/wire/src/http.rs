//! What a proxy needs of HTTP/1 beyond parsing a head: where a body ends, and hop-by-hop headers.

/// Follows a message body without changing it, to find its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    Empty,
    /// This many bytes are left.
    Length(u64),
    /// Chunked coding, in this state.
    Chunked(Chunked),
    /// The end of the connection is its end.
    UntilClose,
}

/// State of a chunked body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunked {
    /// In the digits of a chunk's size.
    Size {
        /// The size so far.
        size: u64,
        /// How many digits there were.
        digits: u8,
    },
    /// In an extension behind the size.
    Extension {
        /// The chunk's size.
        size: u64,
        /// How long the extension is so far.
        length: u16,
    },
    /// The LF behind the size line is to come.
    SizeEnd(u64),
    /// In a chunk's bytes; this many are left.
    Data(u64),
    /// The CR LF behind the bytes: this many of the two are left.
    DataEnd(u8),
    /// In the trailers: bytes in the present line, and in all.
    Trailer {
        /// Bytes of the present line.
        line: u16,
        /// Bytes in all.
        total: u16,
    },
    /// Only the last LF is to come.
    LastEnd,
    /// At the end.
    Done,
}

/// A body breaks its coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the chunked body is malformed")]
pub struct BodyError;

impl Body {
    /// A chunked body at its start.
    pub fn chunked() -> Self {
        Self::Chunked(Chunked::Size { size: 0, digits: 0 })
    }

    /// Whether the end has been seen.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Empty | Self::Length(0) | Self::Chunked(Chunked::Done) => true,
            Self::Length(_) | Self::Chunked(_) | Self::UntilClose => false,
        }
    }

    /// How many of `bytes` belong to the body; fewer than all when it ends among them.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        match self {
            Self::Empty => Ok(0),
            Self::UntilClose => Ok(bytes.len()),
            Self::Length(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunked(state) => state.advance(bytes),
        }
    }
}

impl Chunked {
    fn advance(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            *self = match std::mem::replace(self, Self::Done) {
                Self::Done => return Ok(at),
                Self::Data(left) => {
                    let taken = (bytes.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                    at += taken;
                    *self = if left == taken as u64 { Self::DataEnd(2) } else { Self::Data(left - taken as u64) };
                    continue;
                }
                Self::Size { size, digits } => match (byte as char).to_digit(16) {
                    Some(digit) if digits < 15 => Self::Size { size: size * 16 + u64::from(digit), digits: digits + 1 },
                    Some(_) => return Err(BodyError),
                    None if digits == 0 => return Err(BodyError),
                    None => match byte {
                        b'\r' => Self::SizeEnd(size),
                        b';' | b' ' | b'\t' => Self::Extension { size, length: 0 },
                        _ => return Err(BodyError),
                    },
                },
                Self::Extension { size, length } => match byte {
                    b'\r' => Self::SizeEnd(size),
                    b'\n' | 0 => return Err(BodyError),
                    _ if length > 4096 => return Err(BodyError),
                    _ => Self::Extension { size, length: length + 1 },
                },
                Self::SizeEnd(size) => match (byte, size) {
                    (b'\n', 0) => Self::Trailer { line: 0, total: 0 },
                    (b'\n', size) => Self::Data(size),
                    _ => return Err(BodyError),
                },
                Self::DataEnd(left) => match (byte, left) {
                    (b'\r', 2) => Self::DataEnd(1),
                    (b'\n', 1) => Self::Size { size: 0, digits: 0 },
                    _ => return Err(BodyError),
                },
                Self::Trailer { line, total } => match byte {
                    _ if total > 8192 => return Err(BodyError),
                    b'\r' if line == 0 => Self::LastEnd,
                    b'\n' if line > 0 => Self::Trailer { line: 0, total: total + 1 },
                    b'\n' | 0 => return Err(BodyError),
                    _ => Self::Trailer { line: line + 1, total: total + 1 },
                },
                Self::LastEnd if byte == b'\n' => Self::Done,
                Self::LastEnd => return Err(BodyError),
            };
            at += 1;
        }
        Ok(at)
    }
}

/// Whether a header concerns only one hop and is not passed on by a proxy.
/// `Transfer-Encoding` is not among them: it goes with the body.
pub fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "proxy-authentication-info",
        "te",
        "trailer",
        "upgrade",
    ];
    NAMES.iter().any(|n| n.eq_ignore_ascii_case(name))
}

/// Whether the comma-separated `list` holds `token`, whatever its case.
pub fn has_token(list: &str, token: &str) -> bool {
    list.split(',').any(|t| t.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunked_bodies_end_where_they_end() {
        let wire = b"5\r\nhello\r\n3;name=\"v\"\r\nabc\r\n0\r\nTrailer: x\r\n\r\nGET /";
        for step in 1..wire.len() {
            let mut body = Body::chunked();
            let mut taken = 0;
            for piece in wire.chunks(step) {
                let amount = body.advance(piece).unwrap();
                taken += amount;
                if amount < piece.len() {
                    break;
                }
            }
            assert!(body.is_done());
            assert_eq!(taken, wire.len() - 5, "step {step}");
        }
    }

    #[test]
    fn broken_chunks_are_refused() {
        for wire in
            [&b"\r\n"[..], b"g\r\n", b"5\nhello", b"1\r\nab\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"0x5\r\n"]
        {
            assert_eq!(Body::chunked().advance(wire), Err(BodyError), "{wire:?}");
        }
    }
}
