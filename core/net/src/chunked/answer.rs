//! An answer's header in front of bytes that an [`Open`] takes from there.

use culvert_wire::chunk::{Open, OpenError};
use culvert_wire::preamble::{self, Preamble};

use super::{Response, Step};

/// A [`Preamble`] as a [`Response`].
pub struct Answer<P> {
    preamble: P,
    open: Option<Box<dyn Open>>,
}

impl<P: Preamble> Answer<P> {
    /// Reads `preamble`, then hands over to `open`.
    pub fn new(preamble: P, open: Box<dyn Open>) -> Self {
        Self { preamble, open: Some(open) }
    }
}

impl<P: Preamble> Response for Answer<P> {
    fn step(&mut self, input: &mut [u8]) -> Result<Step, OpenError> {
        match self.preamble.read(input)? {
            preamble::Step::NeedMore(more) => Ok(Step::NeedMore(more)),
            preamble::Step::Done(consumed) => match self.open.take() {
                Some(open) => Ok(Step::Done { consumed, open }),
                None => Err(OpenError::Malformed("the stream was already opened")),
            },
        }
    }

    fn closed_hint(&self) -> &'static str {
        self.preamble.unanswered()
    }
}
