//! Randomness as an argument, so that codecs stay pure and their bytes can be tested.

/// A source of cryptographically secure random bytes.
pub trait Random: Send {
    /// Fills `buffer` completely.
    fn fill(&mut self, buffer: &mut [u8]);

    /// A fresh array of random bytes.
    fn array<const N: usize>(&mut self) -> [u8; N]
    where
        Self: Sized,
    {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

impl<R: Random + ?Sized> Random for &mut R {
    fn fill(&mut self, buffer: &mut [u8]) {
        (**self).fill(buffer);
    }
}

impl<R: Random + ?Sized> Random for Box<R> {
    fn fill(&mut self, buffer: &mut [u8]) {
        (**self).fill(buffer);
    }
}

#[cfg(test)]
pub(crate) mod counted {
    //! Randomness that repeats, for tests.

    use super::Random;

    /// A stream of bytes that depends on its seed only (splitmix64).
    pub(crate) struct Counted(u64);

    impl Counted {
        pub(crate) fn new(seed: u64) -> Self {
            Self(seed)
        }
    }

    impl Random for Counted {
        fn fill(&mut self, buffer: &mut [u8]) {
            for byte in buffer {
                self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut mixed = self.0;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                *byte = (mixed ^ (mixed >> 31)) as u8;
            }
        }
    }
}
