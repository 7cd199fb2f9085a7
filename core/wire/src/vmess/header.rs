//! The request header.

use aes::cipher::{BlockDecrypt, BlockEncrypt};

use super::kdf::{Label, kdf, kdf_nonce};
use super::{Command, Options, Security, Session, UserKey};
use crate::address::Destination;
use crate::address_form::AddressForm;
use crate::aead::{Cipher, Key, TAG};
use crate::random::Random;

/// Length of the identifier at the front, bytes.
pub(super) const AUTH_ID: usize = 16;
const SEALED_LENGTH: usize = 2 + TAG;
const NONCE: usize = 8;
/// Everything in front of the sealed header.
const FRONT: usize = AUTH_ID + SEALED_LENGTH + NONCE;

/// Why an opened header can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A tag did not match.
    #[error("the header is damaged")]
    Forged,
    /// The checksum, a length or the version is wrong.
    #[error("the header is malformed")]
    Malformed,
    /// A cipher or command that is not offered.
    #[error("the header asks for what is not offered")]
    NotOffered,
}

impl UserKey {
    /// Appends a sealed request header for `session` to `out`. `destination` is left out for
    /// [`Command::Mux`]. `now` is Unix time in seconds.
    pub fn seal_request(
        &self,
        session: &Session,
        destination: &Destination,
        now: u64,
        random: &mut dyn Random,
        out: &mut Vec<u8>,
    ) {
        let mut plain = Vec::with_capacity(64 + AddressForm::PortFirst.length(destination));
        let mut padding = [0; 16];
        random.fill(&mut padding);
        let padding = &padding[..usize::from(padding[15] & 0x0f)];
        let security = match session.security {
            Security::Aes128Gcm => 3,
            Security::ChaCha20Poly1305 => 4,
            Security::None => 5,
        };
        plain.push(1);
        plain.extend_from_slice(&session.iv);
        plain.extend_from_slice(&session.key);
        plain.extend_from_slice(&[session.answer, session.options.0]);
        plain.push((padding.len() as u8) << 4 | security);
        plain.push(0);
        plain.push(match session.command {
            Command::Tcp => 1,
            Command::Udp => 2,
            Command::Mux => 3,
        });
        if session.command != Command::Mux {
            AddressForm::PortFirst.put(destination, &mut plain);
        }
        plain.extend_from_slice(padding);
        let check = fnv1a(&plain);
        plain.extend_from_slice(&check.to_be_bytes());

        let mut entropy = [0; 4];
        random.fill(&mut entropy);
        let auth_id = self.auth_id(now, entropy);
        let mut nonce = [0; NONCE];
        random.fill(&mut nonce);

        out.extend_from_slice(&auth_id);
        let keys = HeaderKeys { key: &self.command, path: [&auth_id, &nonce] };
        let length = plain.len() as u16;
        let (key, iv) = keys.derive(Label::HeaderLengthKey, Label::HeaderLengthNonce);
        key.seal_to(iv, &auth_id, &length.to_be_bytes(), out);
        out.extend_from_slice(&nonce);
        let (key, iv) = keys.derive(Label::HeaderKey, Label::HeaderNonce);
        key.seal_to(iv, &auth_id, &plain, out);
    }

    pub(super) fn auth_id(&self, now: u64, entropy: [u8; 4]) -> [u8; AUTH_ID] {
        let mut block = [0; AUTH_ID];
        block[..8].copy_from_slice(&now.to_be_bytes());
        block[8..12].copy_from_slice(&entropy);
        let check = crc32fast::hash(&block[..12]);
        block[12..].copy_from_slice(&check.to_be_bytes());
        let mut block = block.into();
        self.auth.encrypt_block(&mut block);
        block.into()
    }

    /// The time in `auth_id`, if this user made it.
    pub(super) fn recognise(&self, auth_id: &[u8; AUTH_ID]) -> Option<u64> {
        let mut block = (*auth_id).into();
        self.auth.decrypt_block(&mut block);
        let block: [u8; AUTH_ID] = block.into();
        let check = crc32fast::hash(&block[..12]).to_be_bytes();
        if check != block[12..] {
            return None;
        }
        let mut time = [0; 8];
        time.copy_from_slice(&block[..8]);
        Some(u64::from_be_bytes(time))
    }

    /// Opens the header whose front is `input`: the session, destination and length, or how many
    /// bytes are needed.
    pub(super) fn open_request(&self, input: &[u8]) -> Result<Result<Opened, usize>, HeaderError> {
        let Some(front) = input.get(..FRONT) else {
            return Ok(Err(FRONT));
        };
        let (auth_id, rest) = front.split_at(AUTH_ID);
        let (sealed_length, nonce) = rest.split_at(SEALED_LENGTH);
        let keys = HeaderKeys { key: &self.command, path: [auth_id, nonce] };

        let mut length = [0; SEALED_LENGTH];
        length.copy_from_slice(sealed_length);
        let (key, iv) = keys.derive(Label::HeaderLengthKey, Label::HeaderLengthNonce);
        key.open(iv, auth_id, &mut length).map_err(|_| HeaderError::Forged)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        // The longest header: fixed part, name of 255 bytes, padding of 15, checksum.
        if !(42..=38 + 259 + 15 + 4).contains(&length) {
            return Err(HeaderError::Malformed);
        }
        let total = FRONT + length + TAG;
        let Some(sealed) = input.get(FRONT..total) else {
            return Ok(Err(total));
        };
        let mut plain = sealed.to_vec();
        let (key, iv) = keys.derive(Label::HeaderKey, Label::HeaderNonce);
        key.open(iv, auth_id, &mut plain).map_err(|_| HeaderError::Forged)?;
        plain.truncate(length);
        let (session, destination) = parse(&plain)?;
        Ok(Ok(Opened { session, destination, consumed: total }))
    }
}

/// An opened request.
pub(super) struct Opened {
    pub(super) session: Session,
    pub(super) destination: Option<Destination>,
    pub(super) consumed: usize,
}

struct HeaderKeys<'a> {
    key: &'a [u8],
    path: [&'a [u8]; 2],
}

impl HeaderKeys<'_> {
    fn derive(&self, key: Label, nonce: Label) -> (Key, [u8; 12]) {
        let key = Key::new(Cipher::Aes128Gcm, &kdf(key, &self.path, self.key));
        (key, kdf_nonce(nonce, &self.path, self.key))
    }
}

fn parse(plain: &[u8]) -> Result<(Session, Option<Destination>), HeaderError> {
    const FIXED: usize = 38;
    let (body, check) = plain.split_at(plain.len().saturating_sub(4));
    if body.len() < FIXED || fnv1a(body).to_be_bytes() != check || body[0] != 1 {
        return Err(HeaderError::Malformed);
    }
    let (mut iv, mut key) = ([0; 16], [0; 16]);
    iv.copy_from_slice(&body[1..17]);
    key.copy_from_slice(&body[17..33]);
    let security = match body[35] & 0x0f {
        3 => Security::Aes128Gcm,
        4 => Security::ChaCha20Poly1305,
        5 => Security::None,
        _ => return Err(HeaderError::NotOffered),
    };
    let padding = usize::from(body[35] >> 4);
    let command = match body[37] {
        1 => Command::Tcp,
        2 => Command::Udp,
        3 => Command::Mux,
        _ => return Err(HeaderError::NotOffered),
    };
    let options = Options(body[34]);
    // A cipher without chunks is no format, nor is padding without the mask that hides it; frames
    // of a datagram need chunks.
    let chunked = options.has(Options::CHUNKED);
    if (security != Security::None || command == Command::Udp) && !chunked
        || options.has(Options::PADDED) && !options.has(Options::MASKED)
    {
        return Err(HeaderError::NotOffered);
    }
    let rest = &body[FIXED..];
    let (destination, length) = match command {
        Command::Mux => (None, 0),
        Command::Tcp | Command::Udp => {
            let (destination, length) =
                AddressForm::PortFirst.take(rest).map_err(|_| HeaderError::Malformed)?.ok_or(HeaderError::Malformed)?;
            (Some(destination), length)
        }
    };
    if rest.len() != length + padding {
        return Err(HeaderError::Malformed);
    }
    Ok((Session { key, iv, answer: body[33], security, options, command }, destination))
}

pub(super) fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193))
}
