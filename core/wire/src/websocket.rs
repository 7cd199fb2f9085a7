//! WebSocket frames (RFC 6455) as a chunked body format: one binary frame a chunk, masked on the
//! way from the client. Frame boundaries carry no meaning for the streams inside.

use crate::chunk::{Open, OpenError, Opened, Seal};
use crate::random::Random;

/// A frame's payload length is written in two bytes for every payload from 126 bytes on, so that
/// the head has one size and the payload can be read straight to its place.
const MAX_PAYLOAD: usize = 65_535;
const SMALL: usize = 126;
const BINARY: u8 = 0x82;
const MASKED: u8 = 0x80;

/// Which side seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Frames are masked.
    Client,
    /// Frames are not masked.
    Server,
}

/// Applies `mask` to `bytes`, which start `offset` bytes into the masked payload.
pub fn apply_mask(bytes: &mut [u8], mask: [u8; 4], offset: usize) {
    let mut turned = mask;
    turned.rotate_left(offset % 4);
    let [a, b, c, d] = turned;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = bytes.chunks_exact_mut(8);
    for word in &mut words {
        if let Ok(value) = <[u8; 8]>::try_from(&*word) {
            word.copy_from_slice(&(u64::from_ne_bytes(value) ^ wide).to_ne_bytes());
        }
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(turned.iter().cycle()) {
        *byte ^= mask;
    }
}

/// Writes frames.
#[derive(Debug, Clone, Copy)]
pub struct FrameSeal {
    role: Role,
}

impl FrameSeal {
    /// Seals as this side.
    pub fn new(role: Role) -> Self {
        Self { role }
    }
}

impl Seal for FrameSeal {
    fn max_payload(&self) -> usize {
        MAX_PAYLOAD
    }

    fn head(&self) -> usize {
        match self.role {
            Role::Client => 8,
            Role::Server => 4,
        }
    }

    fn tail(&self) -> usize {
        0
    }

    fn seal(&mut self, chunk: &mut [u8], payload: usize, random: &mut dyn Random) -> usize {
        let head = self.head();
        let (masked, mask_at) = match self.role {
            Role::Client => (MASKED, head - 4),
            Role::Server => (0, head),
        };
        if self.role == Role::Client {
            let mut mask = [0; 4];
            random.fill(&mut mask);
            chunk[mask_at..head].copy_from_slice(&mask);
            apply_mask(&mut chunk[head..head + payload], mask, 0);
        }
        chunk[0] = BINARY;
        if payload < SMALL {
            // The two length bytes are not needed: close the gap.
            chunk[1] = masked | payload as u8;
            chunk.copy_within(4..head + payload, 2);
            head + payload - 2
        } else {
            chunk[1] = masked | 126;
            chunk[2..4].copy_from_slice(&(payload as u16).to_be_bytes());
            head + payload
        }
    }

    /// Nothing: a close frame would end both directions, and a stream may end only one.
    fn finish(&mut self, _out: &mut Vec<u8>) {}
}

/// Reads frames of any size; a frame's payload is handed out as it arrives.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameOpen {
    /// Payload bytes of the present data frame that are still to come.
    left: u64,
    mask: Option<[u8; 4]>,
    offset: usize,
}

impl Open for FrameOpen {
    fn max_chunk(&self) -> usize {
        14 + 125
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        if self.left == 0 {
            return self.head(input);
        }
        if input.is_empty() {
            return Ok(Opened::NeedMore(1));
        }
        Ok(self.payload(input, 0))
    }
}

impl FrameOpen {
    fn payload(&mut self, input: &mut [u8], head: usize) -> Opened {
        let amount = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - head);
        if let Some(mask) = self.mask {
            apply_mask(&mut input[head..head + amount], mask, self.offset);
        }
        self.offset = self.offset.wrapping_add(amount);
        self.left -= amount as u64;
        Opened::Chunk { consumed: head + amount, payload: head..head + amount }
    }

    fn head(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        let (Some(first), Some(second)) = (input.first().copied(), input.get(1).copied()) else {
            return Ok(Opened::NeedMore(2));
        };
        if first & 0x70 != 0 {
            return Err(OpenError::Malformed("a WebSocket frame uses an extension that was not agreed on"));
        }
        let (length_bytes, short) = match second & 0x7f {
            126 => (2, 0),
            127 => (8, 0),
            length => (0, u64::from(length)),
        };
        let mask_bytes = if second & MASKED != 0 { 4 } else { 0 };
        let head = 2 + length_bytes + mask_bytes;
        if input.len() < head {
            return Ok(Opened::NeedMore(head));
        }
        let length = input[2..2 + length_bytes].iter().fold(short, |sum, byte| (sum << 8) | u64::from(*byte));
        if length >> 63 != 0 {
            return Err(OpenError::Malformed("a WebSocket frame has an impossible length"));
        }
        let mask = (mask_bytes > 0).then(|| <[u8; 4]>::try_from(&input[head - 4..head]).unwrap_or_default());
        match first & 0x0f {
            0..=2 => {
                (self.left, self.mask, self.offset) = (length, mask, 0);
                Ok(self.payload(input, head))
            }
            8 => Ok(Opened::End { consumed: input.len().min(head + length.min(125) as usize) }),
            9 | 10 if length <= 125 => {
                let end = head + length as usize;
                if input.len() < end {
                    return Ok(Opened::NeedMore(end));
                }
                Ok(Opened::Chunk { consumed: end, payload: 0..0 })
            }
            _ => Err(OpenError::Malformed("a WebSocket frame of an unknown kind")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Random for Fixed {
        fn fill(&mut self, buffer: &mut [u8]) {
            for (byte, value) in buffer.iter_mut().zip([0x37, 0xfa, 0x21, 0x3d].into_iter().cycle()) {
                *byte = value;
            }
        }
    }

    fn sealed(role: Role, payload: &[u8]) -> Vec<u8> {
        let mut seal = FrameSeal::new(role);
        let mut chunk = vec![0; seal.head()];
        chunk.extend_from_slice(payload);
        let length = seal.seal(&mut chunk, payload.len(), &mut Fixed);
        chunk.truncate(length);
        chunk
    }

    #[test]
    fn matches_the_example_of_the_rfc() {
        // RFC 6455 §5.7, with the binary opcode.
        let expected = [0x82, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(sealed(Role::Client, b"Hello"), expected);
        assert_eq!(sealed(Role::Server, b"Hello")[..3], [0x82, 5, b'H']);
    }

    #[test]
    fn opens_what_it_seals_in_any_cut() {
        for role in [Role::Client, Role::Server] {
            for size in [1, 125, 126, 127, 1000, 65_535] {
                let payload: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
                let wire = sealed(role, &payload);
                for step in [1, 3, 61, 100_000] {
                    let mut open = FrameOpen::default();
                    let (mut held, mut out) = (Vec::new(), Vec::new());
                    for piece in wire.chunks(step) {
                        held.extend_from_slice(piece);
                        while let Opened::Chunk { consumed, payload } = open.open(&mut held).unwrap() {
                            out.extend_from_slice(&held[payload]);
                            held.drain(..consumed);
                        }
                    }
                    assert!(out == payload && held.is_empty(), "{role:?} {size} {step}");
                }
            }
        }
    }

    #[test]
    fn control_frames_carry_no_payload_and_close_ends() {
        let mut open = FrameOpen::default();
        assert_eq!(open.open(&mut [0x89, 2, 1, 2]), Ok(Opened::Chunk { consumed: 4, payload: 0..0 }));
        assert_eq!(open.open(&mut [0x88, 2, 3, 0xe8]), Ok(Opened::End { consumed: 4 }));
        assert!(open.open(&mut [0xc2, 0]).is_err());
        assert!(open.open(&mut [0x83, 0]).is_err());
    }
}
