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
