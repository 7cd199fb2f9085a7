//! The body: chunks of a size field, sealed data and padding.

use md5::{Digest, Md5};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake128, Shake128Reader};

use super::kdf::{Label, kdf};
use super::{Command, Options, Security, Session};
use crate::aead::{Cipher, Key, TAG};
use crate::chunk::{Open, OpenError, Opened, Seal};
use crate::random::Random;

/// The most payload of a chunk that we write. With tag and padding a chunk stays below the 16,384
/// bytes that the strictest peer (sing-vmess) reads.
pub const MAX_PAYLOAD: usize = 254 * 64;

const MAX_PADDING: usize = 63;

/// One direction's masks and paddings: a stream of 16-bit numbers from SHAKE128.
struct Shake {
    reader: Shake128Reader,
    block: [u8; Shake::BLOCK],
    used: usize,
}

impl Shake {
    /// SHAKE128's rate: one permutation's worth of output.
    const BLOCK: usize = 168;

    fn new(iv: &[u8; 16]) -> Self {
        let mut shake = Shake128::default();
        shake.update(iv);
        Self { reader: shake.finalize_xof(), block: [0; Self::BLOCK], used: Self::BLOCK }
    }

    fn next(&mut self) -> u16 {
        if self.used == Self::BLOCK {
            self.reader.read(&mut self.block);
            self.used = 0;
        }
        let number = u16::from_be_bytes([self.block[self.used], self.block[self.used + 1]]);
        self.used += 2;
        number
    }
}

/// A key, its nonce's fixed part and its counter, which wraps silently as in every peer.
struct Sealer {
    key: Key,
    nonce: [u8; 12],
    count: u16,
}

impl Sealer {
    fn new(cipher: Cipher, key: &[u8; 16], iv: &[u8; 16]) -> Self {
        let mut material = [0; 32];
        match cipher {
            Cipher::ChaCha20Poly1305 => {
                let first: [u8; 16] = Md5::digest(key).into();
                material[..16].copy_from_slice(&first);
                material[16..].copy_from_slice(&Md5::digest(first));
            }
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => material[..16].copy_from_slice(key),
        }
        let mut nonce = [0; 12];
        nonce[2..].copy_from_slice(&iv[2..12]);
        Self { key: Key::new(cipher, &material), nonce, count: 0 }
    }

    fn nonce(&mut self) -> [u8; 12] {
        self.nonce[..2].copy_from_slice(&self.count.to_be_bytes());
        self.count = self.count.wrapping_add(1);
        self.nonce
    }
}

/// What both directions share: how sizes are written.
struct Framing {
    data: Option<Sealer>,
    length: Option<Sealer>,
    shake: Option<Shake>,
    masked: bool,
    padded: bool,
}

impl Framing {
    fn new(session: &Session, key: &[u8; 16], iv: &[u8; 16]) -> Self {
        let options = session.options;
        let cipher = match session.security {
            Security::Aes128Gcm => Some(Cipher::Aes128Gcm),
            Security::ChaCha20Poly1305 => Some(Cipher::ChaCha20Poly1305),
            Security::None => None,
        };
        let length = match cipher {
            // Both directions seal their sizes under the request's key.
            Some(cipher) if options.has(Options::SEALED_LENGTH) => {
                let mut length_key = [0; 16];
                length_key.copy_from_slice(&kdf(Label::ChunkLength, &[], &session.key)[..16]);
                Some(Sealer::new(cipher, &length_key, &session.iv))
            }
            Some(_) | None => None,
        };
        // v2ray and Xray never pad a stream without a cipher, whatever the option says.
        let padded = options.has(Options::PADDED) && (cipher.is_some() || session.command == Command::Udp);
        let masked = options.has(Options::MASKED) && length.is_none();
        Self {
            data: cipher.map(|cipher| Sealer::new(cipher, key, iv)),
            length,
            shake: (masked || padded).then(|| Shake::new(iv)),
            masked,
            padded,
        }
    }

    const fn head(&self) -> usize {
        if self.length.is_some() { 2 + TAG } else { 2 }
    }

    const fn tag(&self) -> usize {
        if self.data.is_some() { TAG } else { 0 }
    }

    /// The next chunk's padding and mask, in the order in which peers draw them.
    fn draw(&mut self) -> (usize, u16) {
        match &mut self.shake {
            Some(shake) => {
                let padding = if self.padded { usize::from(shake.next() % 64) } else { 0 };
                let mask = if self.masked { shake.next() } else { 0 };
                (padding, mask)
            }
            None => (0, 0),
        }
    }
}

/// Seals one direction of a body.
pub struct BodySeal {
    framing: Framing,
}

impl BodySeal {
    pub(super) fn new(session: &Session, key: &[u8; 16], iv: &[u8; 16]) -> Self {
        Self { framing: Framing::new(session, key, iv) }
    }
}

impl Seal for BodySeal {
    fn max_payload(&self) -> usize {
        MAX_PAYLOAD
    }

    fn head(&self) -> usize {
        self.framing.head()
    }

    fn tail(&self) -> usize {
        self.framing.tag() + if self.framing.padded { MAX_PADDING } else { 0 }
    }

    fn seal(&mut self, chunk: &mut [u8], payload: usize, random: &mut dyn Random) -> usize {
        let framing = &mut self.framing;
        let (head, tag) = (framing.head(), framing.tag());
        let (padding, mask) = framing.draw();
        let (front, body) = chunk.split_at_mut(head);
        if let Some(sealer) = &mut framing.data {
            let nonce = sealer.nonce();
            let computed = sealer.key.seal(nonce, &[], &mut body[..payload]);
            body[payload..payload + TAG].copy_from_slice(&computed);
        }
        let sealed = payload + tag;
        random.fill(&mut body[sealed..sealed + padding]);
        match &mut framing.length {
            Some(sealer) => {
                let nonce = sealer.nonce();
                front[..2].copy_from_slice(&((payload + padding) as u16).to_be_bytes());
                let computed = sealer.key.seal(nonce, &[], &mut front[..2]);
                front[2..].copy_from_slice(&computed);
            }
            None => front.copy_from_slice(&(mask ^ (sealed + padding) as u16).to_be_bytes()),
        }
        head + sealed + padding
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let room = self.head() + self.tail();
        out.resize(start + room, 0);
        // Nothing is drawn from the stream of masks after this chunk, and nobody without the keys can
        // tell its output from random bytes.
        let mut filler = Filler(self.framing.shake.as_ref().map(|shake| shake.reader.clone()));
        let used = self.seal(&mut out[start..], 0, &mut filler);
        out.truncate(start + used);
    }
}

struct Filler(Option<Shake128Reader>);

impl Random for Filler {
    fn fill(&mut self, buffer: &mut [u8]) {
        if let Some(reader) = &mut self.0 {
            reader.read(buffer);
        }
    }
}

/// Opens one direction of a body.
pub struct BodyOpen {
    framing: Framing,
    /// Size (all that follows the size field) and padding of the chunk whose body is awaited.
    awaited: Option<(usize, usize)>,
}

impl BodyOpen {
    pub(super) fn new(session: &Session, key: &[u8; 16], iv: &[u8; 16]) -> Self {
        Self { framing: Framing::new(session, key, iv), awaited: None }
    }

    fn size(&mut self, head: &[u8]) -> Result<(usize, usize), OpenError> {
        let framing = &mut self.framing;
        let (padding, mask) = framing.draw();
        let size = match &mut framing.length {
            Some(sealer) => {
                let mut field = [0; 2 + TAG];
                field.copy_from_slice(head);
                let nonce = sealer.nonce();
                sealer.key.open(nonce, &[], &mut field).map_err(|_| OpenError::Authentication("VMess chunk size"))?;
                usize::from(u16::from_be_bytes([field[0], field[1]])) + TAG
            }
            None => usize::from(mask ^ u16::from_be_bytes([head[0], head[1]])),
        };
        if size < framing.tag() + padding {
            return Err(OpenError::Malformed("VMess: a chunk is smaller than its tag and padding"));
        }
        Ok((size, padding))
    }
}

impl Open for BodyOpen {
    fn max_chunk(&self) -> usize {
        2 + TAG + usize::from(u16::MAX) + TAG
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        let head = self.framing.head();
        let (size, padding) = match self.awaited {
            Some(awaited) => awaited,
            None => {
                let Some(field) = input.get(..head) else {
                    return Ok(Opened::NeedMore(head));
                };
                let awaited = self.size(field)?;
                self.awaited = Some(awaited);
                awaited
            }
        };
        let total = head + size;
        let Some(body) = input.get_mut(head..total) else {
            return Ok(Opened::NeedMore(total));
        };
        self.awaited = None;
        let sealed = size - padding;
        let plain = match &mut self.framing.data {
            Some(sealer) => {
                let nonce = sealer.nonce();
                sealer
                    .key
                    .open(nonce, &[], &mut body[..sealed])
                    .map_err(|_| OpenError::Authentication("VMess chunk"))?
            }
            None => sealed,
        };
        if plain == 0 {
            return Ok(Opened::End { consumed: total });
        }
        Ok(Opened::Chunk { consumed: total, payload: head..head + plain })
    }

    fn ended(&self, left: usize) -> Result<(), OpenError> {
        if left == 0 && self.awaited.is_none() {
            Ok(())
        } else {
            Err(OpenError::Malformed("VMess: the connection ended inside a chunk"))
        }
    }
}
