//! The body format that changes nothing: protocols whose header is followed by the bare stream.

use culvert_wire::chunk::{Open, OpenError, Opened, Seal};
use culvert_wire::random::Random;

/// Bytes as they are, both ways. A [`super::ChunkedStream`] over it only sends and consumes
/// headers, and then steps aside.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clear;

impl Seal for Clear {
    fn max_payload(&self) -> usize {
        usize::MAX
    }

    fn head(&self) -> usize {
        0
    }

    fn tail(&self) -> usize {
        0
    }

    fn seal(&mut self, _chunk: &mut [u8], payload: usize, _random: &mut dyn Random) -> usize {
        payload
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}

    fn transparent(&self) -> bool {
        true
    }
}

impl Open for Clear {
    fn max_chunk(&self) -> usize {
        1
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        if input.is_empty() {
            return Ok(Opened::NeedMore(1));
        }
        Ok(Opened::Chunk { consumed: input.len(), payload: 0..input.len() })
    }

    fn transparent(&self) -> bool {
        true
    }
}
