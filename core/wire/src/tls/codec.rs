//! Reading and writing TLS's length-prefixed structures.

use super::error::TlsError;

/// A cursor that never reads past its end.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], TlsError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or(TlsError::Malformed("a message of the handshake is cut short"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self, width: usize) -> Result<usize, TlsError> {
        Ok(self.take(width)?.iter().fold(0, |value, byte| (value << 8) | usize::from(*byte)))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, TlsError> {
        Ok(self.number(1)? as u8)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, TlsError> {
        Ok(self.number(2)? as u16)
    }

    pub(crate) fn u24(&mut self) -> Result<usize, TlsError> {
        self.number(3)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, TlsError> {
        Ok(self.number(4)? as u32)
    }

    /// The content of a vector whose length has `width` bytes.
    pub(crate) fn vector(&mut self, width: usize) -> Result<&'a [u8], TlsError> {
        let length = self.number(width)?;
        self.take(length)
    }

    /// Refuses bytes that are left over.
    pub(crate) fn end(&self) -> Result<(), TlsError> {
        if self.rest.is_empty() { Ok(()) } else { Err(TlsError::Malformed("a message of the handshake is too long")) }
    }
}

/// Extensions of a block, in order; refuses a type that occurs twice.
pub(crate) fn extensions(block: &[u8]) -> Result<Vec<(u16, &[u8])>, TlsError> {
    let mut reader = Reader::new(block);
    let mut found: Vec<(u16, &[u8])> = Vec::new();
    while !reader.is_empty() {
        let kind = reader.u16()?;
        let body = reader.vector(2)?;
        if found.iter().any(|(other, _)| *other == kind) {
            return Err(TlsError::Illegal("an extension occurs twice"));
        }
        found.push((kind, body));
    }
    Ok(found)
}

/// Appends what `body` writes, with its length in `width` bytes in front.
pub(crate) fn prefixed(out: &mut Vec<u8>, width: usize, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.resize(start + width, 0);
    body(out);
    let length = (out.len() - start - width) as u32;
    out[start..start + width].copy_from_slice(&length.to_be_bytes()[4 - width..]);
}

/// Appends a list of 16-bit values with its length in `width` bytes in front.
pub(crate) fn list16(out: &mut Vec<u8>, width: usize, values: &[u16]) {
    prefixed(out, width, |out| values.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes())));
}
