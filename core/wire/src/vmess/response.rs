//! The server's answer: a short sealed header in front of its body.

use super::Session;
use super::body::BodyOpen;
use super::kdf::{Label, kdf, kdf_nonce};
use crate::aead::{Cipher, Key, TAG};
use crate::chunk::{Open, OpenError, Opened};
use crate::preamble::{Preamble, Step};

const SEALED_LENGTH: usize = 2 + TAG;
const UNANSWERED: &str = "the server closed the connection without an answer: wrong user id, or clocks that differ by more than two minutes?";

/// The server's header, as the client reads it.
pub struct ResponseHead {
    key: [u8; 16],
    iv: [u8; 16],
    answer: u8,
    length: Option<usize>,
}

/// Appends the server's header for `session`.
pub(super) fn seal(session: &Session, out: &mut Vec<u8>) {
    let (key, iv) = session.response_keys();
    let plain = [session.answer, 0, 0, 0];
    let (cipher, nonce) = derive(&key, &iv, Label::ResponseLengthKey, Label::ResponseLengthNonce);
    cipher.seal_to(nonce, &[], &4u16.to_be_bytes(), out);
    let (cipher, nonce) = derive(&key, &iv, Label::ResponseKey, Label::ResponseNonce);
    cipher.seal_to(nonce, &[], &plain, out);
}

fn derive(key: &[u8; 16], iv: &[u8; 16], key_label: Label, nonce_label: Label) -> (Key, [u8; 12]) {
    (Key::new(Cipher::Aes128Gcm, &kdf(key_label, &[], key)), kdf_nonce(nonce_label, &[], iv))
}

impl ResponseHead {
    pub(super) fn new(session: &Session) -> Self {
        let (key, iv) = session.response_keys();
        Self { key, iv, answer: session.answer, length: None }
    }
}

impl Preamble for ResponseHead {
    fn read(&mut self, input: &[u8]) -> Result<Step, OpenError> {
        let forged = |_| OpenError::Authentication("VMess answer");
        let length = match self.length {
            Some(length) => length,
            None => {
                let Some(sealed) = input.first_chunk::<SEALED_LENGTH>() else {
                    return Ok(Step::NeedMore(SEALED_LENGTH));
                };
                let mut sealed = *sealed;
                let (key, nonce) = derive(&self.key, &self.iv, Label::ResponseLengthKey, Label::ResponseLengthNonce);
                key.open(nonce, &[], &mut sealed).map_err(forged)?;
                let length = usize::from(u16::from_be_bytes([sealed[0], sealed[1]]));
                if !(4..=4 + 255).contains(&length) {
                    return Err(OpenError::Malformed("VMess answer: the header's length is out of range"));
                }
                self.length = Some(length);
                length
            }
        };
        let total = SEALED_LENGTH + length + TAG;
        let Some(sealed) = input.get(SEALED_LENGTH..total) else {
            return Ok(Step::NeedMore(total));
        };
        let mut plain = [0; 4 + 255 + TAG];
        let plain = &mut plain[..sealed.len()];
        plain.copy_from_slice(sealed);
        let (key, nonce) = derive(&self.key, &self.iv, Label::ResponseKey, Label::ResponseNonce);
        key.open(nonce, &[], plain).map_err(forged)?;
        if plain[0] != self.answer {
            return Err(OpenError::Malformed("VMess answer: it belongs to another request"));
        }
        // Option, command, command length; commands are passed over.
        if usize::from(plain[3]) > length - 4 {
            return Err(OpenError::Malformed("VMess answer: its command is longer than its header"));
        }
        Ok(Step::Done(total))
    }

    fn unanswered(&self) -> &'static str {
        UNANSWERED
    }
}

/// The server's header, then its body.
pub struct ResponseOpen {
    head: Option<ResponseHead>,
    body: BodyOpen,
}

impl ResponseOpen {
    pub(super) fn new(head: ResponseHead, body: BodyOpen) -> Self {
        Self { head: Some(head), body }
    }
}

impl Open for ResponseOpen {
    fn max_chunk(&self) -> usize {
        self.body.max_chunk()
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        if let Some(head) = &mut self.head {
            return Ok(match head.read(input)? {
                Step::NeedMore(needed) => Opened::NeedMore(needed),
                Step::Done(consumed) => {
                    self.head = None;
                    Opened::Chunk { consumed, payload: consumed..consumed }
                }
            });
        }
        self.body.open(input)
    }

    fn ended(&self, left: usize) -> Result<(), OpenError> {
        match &self.head {
            Some(head) => Err(OpenError::Unanswered(head.unanswered())),
            None => self.body.ended(left),
        }
    }
}
