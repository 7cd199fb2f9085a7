//! The system's randomness, for codecs that take it as an argument.

use culvert_wire::random::Random;

/// Cryptographically secure random bytes from aws-lc (its own seeded generator, per thread).
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::panic, reason = "going on without randomness would send predictable keys")]
    fn fill(&mut self, buffer: &mut [u8]) {
        if aws_lc_rs::rand::fill(buffer).is_err() && getrandom::fill(buffer).is_err() {
            panic!("the system gives no random bytes");
        }
    }
}
