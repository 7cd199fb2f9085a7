//! Datagrams on the server's side: sessions of clients, and answers to them.

use std::collections::HashMap;

use chacha20poly1305::XChaCha20Poly1305;

use super::keys::{BlockCipher, Keys, SharedKey};
use super::packet::{
    EXTENDED_FRONT, PacketError, SEPARATE, Sending, SessionKey, check_body, extended_cipher, open_aead, open_extended,
    open_plain, put_body, seal_plain,
};
use super::server::Users;
use super::{KeyError, Method};
use crate::address::Destination;
use crate::random::Random;
use crate::replay::PacketWindow;

/// Sessions held at once; when there are more, those silent for [`IDLE`] go, else new ones wait.
const MOST_SESSIONS: usize = 4096;

/// A session silent for so long may be forgotten, seconds.
const IDLE: u64 = 300;

/// A client's session with a 2022 method; the AEAD methods have none.
pub type SessionId = [u8; 8];

/// A datagram from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The session, by which it is to be answered; absent for the AEAD methods.
    pub session: Option<SessionId>,
    /// Place of the user in the list (0 without users).
    pub user: usize,
    /// The target.
    pub target: Destination,
    /// Where the payload lies in the packet.
    pub payload: std::ops::Range<usize>,
}

struct Session {
    user: usize,
    key: SessionKey,
    window: PacketWindow,
    answers: Sending,
    /// Encrypts the separate header of answers.
    outer: Option<BlockCipher>,
    heard: u64,
}

/// A server's keys, users and sessions.
pub struct PacketServer {
    keys: Keys,
    users: Users,
    block: Option<BlockCipher>,
    extended: Option<Box<XChaCha20Poly1305>>,
    sessions: HashMap<SessionId, Session>,
}

impl PacketServer {
    /// A server; see [`super::Server::new`].
    pub fn new(method: Method, password: &str, users: &[&str]) -> Result<Self, KeyError> {
        let keys = Keys::new(method, password)?;
        Ok(Self {
            users: Users::new(method, users)?,
            block: BlockCipher::new(method, &keys.user),
            extended: extended_cipher(method, &keys.user),
            sessions: HashMap::new(),
            keys,
        })
    }

    /// Opens `packet` in place. `now` is Unix time in seconds.
    pub fn open(&mut self, packet: &mut [u8], now: u64, random: &mut dyn Random) -> Result<Incoming, PacketError> {
        if !self.keys.method.is_2022() {
            let (target, payload) = open_plain(&self.keys, packet)?;
            return Ok(Incoming { session: None, user: 0, target, payload });
        }
        let (header, start, end) = match (&self.block, &self.extended) {
            (Some(block), _) => {
                let (front, _) = packet.split_first_chunk::<SEPARATE>().ok_or(PacketError::Malformed)?;
                (block.decrypt(*front), SEPARATE, None)
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

        let (start, user, user_key) = self.user_of(packet, &header, start)?;
        let fresh;
        let (key, known) = match self.sessions.get(&id) {
            Some(session) if session.user == user => (&session.key, true),
            Some(_) => return Err(PacketError::UnknownSession),
            None => {
                fresh = SessionKey::new(self.keys.method, &user_key, &id);
                (&fresh, false)
            }
        };
        let end = match end {
            Some(end) => end,
            None => start + open_aead(key, &header, &mut packet[start..])?,
        };
        let (target, at) = check_body(&packet[start..end], 0, None, now)?;
        if !known {
            self.admit(id, user, &user_key, now, random)?;
        }
        let session = self.sessions.get_mut(&id).ok_or(PacketError::UnknownSession)?;
        if !session.window.admit(u64::from_be_bytes(number)) {
            return Err(PacketError::Replayed);
        }
        session.heard = now;
        Ok(Incoming { session: Some(id), user, target, payload: start + at..end })
    }

    fn user_of(
        &self,
        packet: &[u8],
        header: &[u8; SEPARATE],
        start: usize,
    ) -> Result<(usize, usize, SharedKey), PacketError> {
        if self.users.is_empty() {
            return Ok((start, 0, self.keys.user.clone()));
        }
        let name = packet[start..].first_chunk::<16>().ok_or(PacketError::Malformed)?;
        let block = self.block.as_ref().ok_or(PacketError::Malformed)?;
        let mut name = block.decrypt(*name);
        name.iter_mut().zip(header).for_each(|(n, h)| *n ^= h);
        let (user, key) = self.users.named(&name).ok_or(PacketError::UnknownSession)?;
        Ok((start + 16, *user, key.clone()))
    }

    fn admit(
        &mut self,
        id: SessionId,
        user: usize,
        key: &SharedKey,
        now: u64,
        random: &mut dyn Random,
    ) -> Result<(), PacketError> {
        if self.sessions.len() >= MOST_SESSIONS {
            self.sessions.retain(|_, session| now.saturating_sub(session.heard) < IDLE);
            if self.sessions.len() >= MOST_SESSIONS {
                return Err(PacketError::UnknownSession);
            }
        }
        let method = self.keys.method;
        let session = Session {
            user,
            key: SessionKey::new(method, key, &id),
            window: PacketWindow::default(),
            answers: Sending::new(method, key, random),
            outer: BlockCipher::new(method, key),
            heard: now,
        };
        self.sessions.insert(id, session);
        Ok(())
    }

    /// Appends the packet that answers `session` with `payload` from `source`.
    pub fn seal(
        &mut self,
        session: Option<SessionId>,
        source: &Destination,
        payload: &[u8],
        now: u64,
        random: &mut dyn Random,
        out: &mut Vec<u8>,
    ) -> Result<(), PacketError> {
        let Some(id) = session else {
            seal_plain(&self.keys, source, payload, random, out);
            return Ok(());
        };
        let session = self.sessions.get_mut(&id).ok_or(PacketError::UnknownSession)?;
        let begin = out.len();
        let header = session.answers.number();
        match &session.outer {
            Some(outer) => {
                out.extend_from_slice(&outer.encrypt(header));
                let start = out.len();
                put_body(1, now, Some(&id), source, payload, random, out);
                session.answers.seal(&header, start, out);
            }
            None => {
                Sending::start_extended(&header, random, out);
                put_body(1, now, Some(&id), source, payload, random, out);
                session.answers.seal_extended(begin, out);
            }
        }
        Ok(())
    }
}
