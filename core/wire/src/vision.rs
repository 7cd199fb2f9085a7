//! Vision (VLESS flow `xtls-rprx-vision`): hides the record sizes of an inner TLS handshake behind
//! padding, and then, when the inner connection is TLS 1.3, steps out of the way: each direction
//! goes on as raw bytes on the socket, outside the outer TLS.
//!
//! Both directions are layers over the outer TLS's own ([`crate::chunk`]), so that one buffer and
//! one copy serve all three.

mod filter;
mod open;
mod records;
mod seal;

pub use filter::{Filter, SharedFilter};
pub use open::VisionOpen;
pub use seal::VisionSeal;

/// Bytes of a block's header without the user id.
const BLOCK_HEADER: usize = 5;
/// Bytes of the user id in front of each direction's first block.
const USER_ID: usize = 16;
/// The most bytes of a block, headers and padding included.
const MAX_BLOCK: usize = 8192;
/// The most content of a block.
const MAX_CONTENT: usize = MAX_BLOCK - USER_ID - BLOCK_HEADER;

/// What follows a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    /// Another block.
    Continue,
    /// Plain content inside the outer TLS.
    End,
    /// Raw content outside the outer TLS.
    Direct,
}

impl Command {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Continue),
            1 => Some(Self::End),
            2 => Some(Self::Direct),
            _ => None,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Continue => 0,
            Self::End => 1,
            Self::Direct => 2,
        }
    }
}

#[cfg(test)]
mod tests;
