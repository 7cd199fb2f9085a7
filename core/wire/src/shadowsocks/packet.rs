//! Datagrams: what both sides share, and the client's side.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};

use super::client::{check_time, some_padding};
use super::keys::{BlockCipher, Keys, LONGEST, SharedKey, session_key};
use super::{CLOCK_TOLERANCE, Method};
use crate::address::Destination;
use crate::address_form::{AddressForm, AddressFormError};
use crate::aead::{Key, TAG};
use crate::chunk::OpenError;
use crate::random::Random;
use crate::replay::PacketWindow;

/// Session id and packet id.
pub(super) const SEPARATE: usize = 16;
const XNONCE: usize = 24;

/// Why a datagram is dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// It is too short, or its fields break the format.
    #[error("the datagram is malformed")]
    Malformed,
    /// It can't be opened, or its time is off.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its number was seen before or is too old.
    #[error("the datagram was seen before")]
    Replayed,
    /// It belongs to a session that is not known, or to one too many.
    #[error("the datagram belongs to no known session")]
    UnknownSession,
    /// The address can't be read.
    #[error(transparent)]
    Address(#[from] AddressFormError),
}

const FORGED: PacketError = PacketError::Open(OpenError::Authentication("Shadowsocks datagram"));

/// One direction's session: its id, the next packet's number, its key.
pub(super) struct Sending {
    pub(super) id: [u8; 8],
    next: u64,
    key: SessionKey,
}

/// The key of a session's datagrams.
pub(super) enum SessionKey {
    Aead(Key),
    Extended(Box<XChaCha20Poly1305>),
}

impl SessionKey {
    pub(super) fn new(method: Method, key: &SharedKey, id: &[u8; 8]) -> Self {
        match method {
            Method::Blake3ChaCha20Poly1305 => Self::Extended(extended(key)),
            Method::Aes128Gcm
            | Method::Aes256Gcm
            | Method::ChaCha20IetfPoly1305
            | Method::Blake3Aes128Gcm
            | Method::Blake3Aes256Gcm => Self::Aead(session_key(method, key, id)),
        }
    }
}

/// The cipher of a key of 32 bytes.
fn extended(key: &SharedKey) -> Box<XChaCha20Poly1305> {
    let mut bytes = [0; LONGEST];
    bytes[..key.bytes().len()].copy_from_slice(key.bytes());
    Box::new(XChaCha20Poly1305::new(&bytes.into()))
}

impl Sending {
    pub(super) fn new(method: Method, key: &SharedKey, random: &mut dyn Random) -> Self {
        let mut id = [0; 8];
        random.fill(&mut id);
        Self { id, next: 0, key: SessionKey::new(method, key, &id) }
    }

    /// The separate header of the next packet.
    pub(super) fn number(&mut self) -> [u8; SEPARATE] {
        let mut header = [0; SEPARATE];
        header[..8].copy_from_slice(&self.id);
        header[8..].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        header
    }

    /// Seals `out[start..]` with the separate header `header` and appends the tag.
    pub(super) fn seal(&self, header: &[u8; SEPARATE], start: usize, out: &mut Vec<u8>) {
        if let SessionKey::Aead(key) = &self.key {
            let mut nonce = [0; 12];
            nonce.copy_from_slice(&header[4..]);
            let tag = key.seal(nonce, &[], &mut out[start..]);
            out.extend_from_slice(&tag);
        }
    }

    /// Starts a packet of the ChaCha method: nonce and header; the place where the plaintext starts.
    pub(super) fn start_extended(header: &[u8; SEPARATE], random: &mut dyn Random, out: &mut Vec<u8>) {
        let mut nonce = [0; XNONCE];
        random.fill(&mut nonce);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(header);
    }

    /// Seals a packet begun by [`Sending::start_extended`] at `start`.
    pub(super) fn seal_extended(&self, start: usize, out: &mut Vec<u8>) {
        if let SessionKey::Extended(cipher) = &self.key {
            let mut nonce = [0; XNONCE];
            nonce.copy_from_slice(&out[start..start + XNONCE]);
            match cipher.encrypt_in_place_detached(&nonce.into(), &[], &mut out[start + XNONCE..]) {
                Ok(tag) => out.extend_from_slice(&tag),
                // Only beyond 256 GiB. No plaintext may leave.
                Err(_) => out.truncate(start),
            }
        }
    }
}

/// Opens the ciphertext and tag in `sealed` that carries the separate header `header`.
pub(super) fn open_aead(key: &SessionKey, header: &[u8; SEPARATE], sealed: &mut [u8]) -> Result<usize, PacketError> {
    match key {
        SessionKey::Aead(key) => {
            let mut nonce = [0; 12];
            nonce.copy_from_slice(&header[4..]);
            key.open(nonce, &[], sealed).map_err(|_| FORGED)
        }
        SessionKey::Extended(_) => Err(FORGED),
    }
}

/// Opens a packet of the ChaCha method in place: its header, and where its plaintext ends.
pub(super) fn open_extended(
    cipher: &XChaCha20Poly1305,
    packet: &mut [u8],
) -> Result<([u8; SEPARATE], usize), PacketError> {
    let end = packet.len().checked_sub(TAG).filter(|&end| end >= XNONCE + SEPARATE).ok_or(PacketError::Malformed)?;
    let (front, tag) = packet.split_at_mut(end);
    let (nonce, body) = front.split_at_mut(XNONCE);
    let mut tag_bytes = [0; TAG];
    tag_bytes.copy_from_slice(tag);
    let mut nonce_bytes = [0; XNONCE];
    nonce_bytes.copy_from_slice(nonce);
    cipher.decrypt_in_place_detached(&nonce_bytes.into(), &[], body, &tag_bytes.into()).map_err(|_| FORGED)?;
    let mut header = [0; SEPARATE];
    header.copy_from_slice(&body[..SEPARATE]);
    Ok((header, end))
}

/// The XChaCha cipher of a key, made once.
pub(super) fn extended_cipher(method: Method, key: &SharedKey) -> Option<Box<XChaCha20Poly1305>> {
    (method == Method::Blake3ChaCha20Poly1305).then(|| extended(key))
}

/// Where the plaintext of an opened ChaCha packet starts.
pub(super) const EXTENDED_FRONT: usize = XNONCE + SEPARATE;

/// Appends a datagram of the AEAD methods.
pub(super) fn seal_plain(keys: &Keys, peer: &Destination, payload: &[u8], random: &mut dyn Random, out: &mut Vec<u8>) {
    let mut salt = [0; LONGEST];
    let salt = &mut salt[..keys.method.key_length()];
    random.fill(salt);
    out.extend_from_slice(salt);
    let start = out.len();
    AddressForm::Socks.put(peer, out);
    out.extend_from_slice(payload);
    let tag = session_key(keys.method, &keys.user, salt).seal([0; 12], &[], &mut out[start..]);
    out.extend_from_slice(&tag);
}

/// Opens a datagram of the AEAD methods in place: its far end and where its payload lies.
pub(super) fn open_plain(keys: &Keys, packet: &mut [u8]) -> Result<(Destination, std::ops::Range<usize>), PacketError> {
    let salt_length = keys.method.key_length();
    let (salt, sealed) = packet.split_at_mut_checked(salt_length).ok_or(PacketError::Malformed)?;
    let length = session_key(keys.method, &keys.user, salt).open([0; 12], &[], sealed).map_err(|_| FORGED)?;
    let (peer, at) = AddressForm::Socks.take(&sealed[..length])?.ok_or(PacketError::Malformed)?;
    Ok((peer, salt_length + at..salt_length + length))
}

/// What precedes the address in a 2022 body: type, time, the client's session (server to client),
/// padding. Answers the rest's place.
pub(super) fn check_body(
    plain: &[u8],
    kind: u8,
    session: Option<&[u8; 8]>,
    now: u64,
) -> Result<(Destination, usize), PacketError> {
    let (&[found], rest) = plain.split_first_chunk().ok_or(PacketError::Malformed)?;
    let (&time, mut rest) = rest.split_first_chunk().ok_or(PacketError::Malformed)?;
    if found != kind {
        return Err(PacketError::Malformed);
    }
    check_time(u64::from_be_bytes(time), now)?;
    if let Some(session) = session {
        let (found, after) = rest.split_first_chunk::<8>().ok_or(PacketError::Malformed)?;
        if found != session {
            return Err(PacketError::UnknownSession);
        }
        rest = after;
    }
    let (&padding, rest) = rest.split_first_chunk().ok_or(PacketError::Malformed)?;
    let rest = rest.get(usize::from(u16::from_be_bytes(padding))..).ok_or(PacketError::Malformed)?;
    let (peer, used) = AddressForm::Socks.take(rest)?.ok_or(PacketError::Malformed)?;
    Ok((peer, plain.len() - rest.len() + used))
}

/// Appends what [`check_body`] reads, and the payload. Queries of names are padded, so that their
/// length does not give the name away.
pub(super) fn put_body(
    kind: u8,
    now: u64,
    session: Option<&[u8; 8]>,
    peer: &Destination,
    payload: &[u8],
    random: &mut dyn Random,
    out: &mut Vec<u8>,
) {
    out.push(kind);
    out.extend_from_slice(&now.to_be_bytes());
    if let Some(session) = session {
        out.extend_from_slice(session);
    }
    let padding =
        if peer.port == 53 && payload.len() < 900 { some_padding(random).min(900 - payload.len()) } else { 0 };
    out.extend_from_slice(&(padding as u16).to_be_bytes());
    let start = out.len();
    out.resize(start + padding, 0);
    random.fill(&mut out[start..]);
    AddressForm::Socks.put(peer, out);
    out.extend_from_slice(payload);
}

/// A server's session as the client knows it.
struct Receiving {
    id: [u8; 8],
    key: SessionKey,
    window: PacketWindow,
    /// When it was last heard, Unix seconds.
    heard: u64,
}

/// The client's side of one association.
pub struct PacketClient {
    keys: Keys,
    sending: Sending,
    /// Encrypts our separate headers: the first identity's key, or the user's.
    outer: Option<BlockCipher>,
    /// Decrypts the server's separate headers.
    inner: Option<BlockCipher>,
    extended: Option<Box<XChaCha20Poly1305>>,
    identities: Vec<BlockCipher>,
    current: Option<Receiving>,
    previous: Option<Receiving>,
}

impl PacketClient {
    /// A fresh association.
    pub fn new(keys: &Keys, random: &mut dyn Random) -> Self {
        let method = keys.method;
        let outer = keys.identities.first().unwrap_or(&keys.user);
        Self {
            sending: Sending::new(method, &keys.user, random),
            outer: BlockCipher::new(method, outer),
            inner: BlockCipher::new(method, &keys.user),
            extended: extended_cipher(method, &keys.user),
            identities: keys.identities.iter().filter_map(|key| BlockCipher::new(method, key)).collect(),
            current: None,
            previous: None,
            keys: keys.clone(),
        }
    }

    /// Appends the packet that carries `payload` to `target`. `now` is Unix time in seconds.
    pub fn seal(&mut self, target: &Destination, payload: &[u8], now: u64, random: &mut dyn Random, out: &mut Vec<u8>) {
        if !self.keys.method.is_2022() {
            seal_plain(&self.keys, target, payload, random, out);
            return;
        }
        let begin = out.len();
        let header = self.sending.number();
        match &self.outer {
            Some(outer) => {
                out.extend_from_slice(&outer.encrypt(header));
                let names = self.keys.identities.iter().skip(1).chain([&self.keys.user]);
                for (cipher, next) in self.identities.iter().zip(names) {
                    let mut name = next.identity();
                    name.iter_mut().zip(&header).for_each(|(n, h)| *n ^= h);
                    out.extend_from_slice(&cipher.encrypt(name));
                }
                let start = out.len();
                put_body(0, now, None, target, payload, random, out);
                self.sending.seal(&header, start, out);
            }
            None => {
                Sending::start_extended(&header, random, out);
                put_body(0, now, None, target, payload, random, out);
                self.sending.seal_extended(begin, out);
            }
        }
    }

    /// Opens `packet` in place: its source and where its payload lies.
    pub fn open(&mut self, packet: &mut [u8], now: u64) -> Result<(Destination, std::ops::Range<usize>), PacketError> {
        if !self.keys.method.is_2022() {
            return open_plain(&self.keys, packet);
        }
        let (header, start, end) = match (&self.inner, &self.extended) {
            (Some(inner), _) => {
                let (front, _) = packet.split_first_chunk_mut::<SEPARATE>().ok_or(PacketError::Malformed)?;
                (inner.decrypt(*front), SEPARATE, None)
            }
            (None, Some(cipher)) => {
                let (header, end) = open_extended(cipher, packet)?;
                (header, EXTENDED_FRONT, Some(end))
            }
            (None, None) => return Err(PacketError::Malformed),
        };
        let (mut id, mut number) = ([0; 8], [0; 8]);
        id.copy_from_slice(&header[..8]);
        number.copy_from_slice(&header[8..]);

        let known = [&mut self.current, &mut self.previous].into_iter().flatten().find(|session| session.id == id);
        let mut fresh = None;
        let session = match known {
            Some(session) => session,
            None => fresh.insert(Receiving {
                id,
                key: SessionKey::new(self.keys.method, &self.keys.user, &id),
                window: PacketWindow::default(),
                heard: now,
            }),
        };
        let end = match end {
            Some(end) => end,
            None => start + open_aead(&session.key, &header, &mut packet[start..])?,
        };
        let (source, at) = check_body(&packet[start..end], 1, Some(&self.sending.id), now)?;
        if !session.window.admit(u64::from_be_bytes(number)) {
            return Err(PacketError::Replayed);
        }
        session.heard = now;
        if let Some(fresh) = fresh {
            // The server has restarted. It may do so once a minute, or a replay of its past could
            // push out the present.
            if self.previous.as_ref().is_some_and(|old| now.saturating_sub(old.heard) < 2 * CLOCK_TOLERANCE) {
                return Err(PacketError::UnknownSession);
            }
            self.previous = self.current.replace(fresh);
        }
        Ok((source, start + at..end))
    }
}
