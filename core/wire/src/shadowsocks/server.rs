//! The server's side of a TCP stream.

use std::collections::HashMap;

use super::client::{MAX_PADDING, check_time};
use super::keys::{BlockCipher, Keys, LONGEST, SharedKey, session_key};
use super::stream::{LENGTH, StreamOpen, StreamSeal};
use super::{CLOCK_TOLERANCE, Clock, KeyError, Method};
use crate::address::Destination;
use crate::address_form::AddressForm;
use crate::aead::TAG;
use crate::chunk::{OpenError, Seal};
use crate::random::Random;
use crate::replay::SeenRecently;

/// Salts remembered in a window; more requests are refused.
const REMEMBERED: usize = 1 << 18;

/// How long salts of the AEAD methods (which carry no time) are remembered, seconds.
const AEAD_WINDOW: u64 = 600;

/// Why a request is refused. A server tells its client nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It can't be opened, or its time is off.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The identity header names no user.
    #[error("no user of this name")]
    UnknownUser,
    /// The salt was seen before, or too many were.
    #[error("the request was seen before")]
    Replayed,
    /// The header breaks the format.
    #[error("the request is malformed")]
    Malformed,
}

/// An accepted request.
pub struct Accepted {
    /// Place of the user in the list (0 without users).
    pub user: usize,
    /// The target.
    pub destination: Destination,
    /// Payload that came with the header.
    pub payload: Vec<u8>,
    /// What the rest is opened with.
    pub open: StreamOpen,
    /// What answers are sealed with.
    pub seal: ServerSeal,
    /// Bytes of input that were taken.
    pub consumed: usize,
}

/// What [`Server::read`] found.
pub enum Step {
    /// At least this many bytes are needed in all.
    NeedMore(usize),
    /// A whole, authentic, fresh request.
    Request(Box<Accepted>),
}

/// A server's keys, users and memory of salts.
pub struct Server {
    keys: Keys,
    users: Users,
    seen: SeenRecently<[u8; LONGEST]>,
}

/// The users of a 2022 AES server, by the name that identity headers give them.
#[derive(Clone, Default)]
pub(super) struct Users(HashMap<[u8; 16], (usize, SharedKey)>);

impl Users {
    pub(super) fn new(method: Method, passwords: &[&str]) -> Result<Self, KeyError> {
        if !passwords.is_empty() && !method.has_block_cipher() {
            return Err(KeyError::TooMany);
        }
        let mut users = HashMap::new();
        for (place, password) in passwords.iter().enumerate() {
            let keys = Keys::new(method, password)?;
            users.insert(keys.user.identity(), (place, keys.user));
        }
        Ok(Self(users))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn named(&self, name: &[u8; 16]) -> Option<&(usize, SharedKey)> {
        self.0.get(name)
    }
}

impl Server {
    /// A server of `method` with `password`; with `users` (2022 AES methods only), their keys, and
    /// `password` is the key of the identity headers.
    pub fn new(method: Method, password: &str, users: &[&str]) -> Result<Self, KeyError> {
        let window = if method.is_2022() { 2 * CLOCK_TOLERANCE } else { AEAD_WINDOW };
        Ok(Self {
            keys: Keys::new(method, password)?,
            users: Users::new(method, users)?,
            seen: SeenRecently::new(window, REMEMBERED),
        })
    }

    /// Reads the request at the front of `input`. Call again with more bytes while it needs more.
    pub fn read(&mut self, input: &[u8], clock: &Clock) -> Result<Step, RequestError> {
        let method = self.keys.method;
        let salt_length = method.key_length();
        let Some((salt, rest)) = input.split_at_checked(salt_length) else {
            return Ok(Step::NeedMore(salt_length));
        };
        let parsed = if method.is_2022() {
            self.read_2022(salt, rest, clock())?
        } else {
            read_aead(method, &self.keys.user, salt, rest)?
        };
        let parsed = match parsed {
            Parsed::NeedMore(more) => return Ok(Step::NeedMore(salt_length + more)),
            Parsed::Whole(parsed) => parsed,
        };
        let mut remembered = [0; LONGEST];
        remembered[..salt_length].copy_from_slice(salt);
        if !self.seen.admit(remembered, clock()) {
            return Err(RequestError::Replayed);
        }
        let seal = ServerSeal::new(method, parsed.key, remembered, clock.clone());
        Ok(Step::Request(Box::new(Accepted {
            user: parsed.user,
            destination: parsed.destination,
            payload: parsed.payload,
            open: parsed.open,
            seal,
            consumed: salt_length + parsed.consumed,
        })))
    }

    fn read_2022(&self, salt: &[u8], mut rest: &[u8], now: u64) -> Result<Parsed, RequestError> {
        const FIXED: usize = 11 + TAG;
        let method = self.keys.method;
        let mut identity_length = 0;
        let (mut user, mut key) = (0, &self.keys.user);
        if !self.users.is_empty() {
            let Some((header, after)) = rest.split_first_chunk::<16>() else {
                return Ok(Parsed::NeedMore(16 + FIXED));
            };
            let cipher = BlockCipher::identity(method, key, salt).ok_or(RequestError::Malformed)?;
            let (place, user_key) = self.users.named(&cipher.decrypt(*header)).ok_or(RequestError::UnknownUser)?;
            (user, key, rest, identity_length) = (*place, user_key, after, 16);
        }
        let Some((header, rest)) = rest.split_first_chunk::<FIXED>() else {
            return Ok(Parsed::NeedMore(identity_length + FIXED));
        };
        let mut open = StreamOpen::new(method, session_key(method, key, salt));
        let mut fixed = *header;
        open.message(&mut fixed, "Shadowsocks request")?;
        if fixed[0] != 0 {
            return Err(RequestError::Malformed);
        }
        let mut time = [0; 8];
        time.copy_from_slice(&fixed[1..9]);
        check_time(u64::from_be_bytes(time), now)?;
        let length = usize::from(u16::from_be_bytes([fixed[9], fixed[10]]));
        let consumed = identity_length + FIXED + length + TAG;
        let Some(sealed) = rest.get(..length + TAG) else {
            return Ok(Parsed::NeedMore(consumed));
        };
        let mut plain = sealed.to_vec();
        open.message(&mut plain, "Shadowsocks request")?;
        plain.truncate(length);
        let (destination, at) =
            AddressForm::Socks.take(&plain).map_err(|_| RequestError::Malformed)?.ok_or(RequestError::Malformed)?;
        let Some(&padding) = plain[at..].first_chunk::<2>() else {
            return Err(RequestError::Malformed);
        };
        let padding = usize::from(u16::from_be_bytes(padding));
        let start = at + 2 + padding;
        // Without padding there must be payload.
        if padding > MAX_PADDING || start > length || (padding == 0 && start == length) {
            return Err(RequestError::Malformed);
        }
        plain.drain(..start);
        Ok(Parsed::Whole(Box::new(Request { user, key: key.clone(), destination, payload: plain, open, consumed })))
    }
}

enum Parsed {
    NeedMore(usize),
    Whole(Box<Request>),
}

struct Request {
    user: usize,
    key: SharedKey,
    destination: Destination,
    payload: Vec<u8>,
    open: StreamOpen,
    consumed: usize,
}

/// Opens chunks until the address is whole; a client may have cut it anywhere.
fn read_aead(method: Method, key: &SharedKey, salt: &[u8], rest: &[u8]) -> Result<Parsed, RequestError> {
    let mut open = StreamOpen::new(method, session_key(method, key, salt));
    let mut plain = Vec::new();
    let mut at = 0;
    loop {
        let Some(field) = rest.get(at..at + LENGTH) else {
            return Ok(Parsed::NeedMore(at + LENGTH));
        };
        let mut field = field.to_vec();
        open.message(&mut field, "Shadowsocks request")?;
        let length = usize::from(u16::from_be_bytes([field[0], field[1]]));
        if length == 0 || length > super::stream::AEAD_MAX {
            return Err(RequestError::Malformed);
        }
        let end = at + LENGTH + length + TAG;
        let Some(sealed) = rest.get(at + LENGTH..end) else {
            return Ok(Parsed::NeedMore(end));
        };
        let mut body = sealed.to_vec();
        open.message(&mut body, "Shadowsocks request")?;
        plain.extend_from_slice(&body[..length]);
        at = end;
        if let Some((destination, used)) = AddressForm::Socks.take(&plain).map_err(|_| RequestError::Malformed)? {
            plain.drain(..used);
            return Ok(Parsed::Whole(Box::new(Request {
                user: 0,
                key: key.clone(),
                destination,
                payload: plain,
                open,
                consumed: at,
            })));
        }
    }
}

/// Seals the server's chunks; the first carries the salt (and header) in front.
pub struct ServerSeal {
    method: Method,
    start: Option<Start>,
    body: Option<StreamSeal>,
}

struct Start {
    key: SharedKey,
    request_salt: [u8; LONGEST],
    clock: Clock,
}

impl ServerSeal {
    fn new(method: Method, key: SharedKey, request_salt: [u8; LONGEST], clock: Clock) -> Self {
        Self { method, start: Some(Start { key, request_salt, clock }), body: None }
    }
}

impl Seal for ServerSeal {
    fn max_payload(&self) -> usize {
        if self.method.is_2022() { 511 * 64 } else { super::stream::AEAD_MAX }
    }

    fn head(&self) -> usize {
        let salt = self.method.key_length();
        match (&self.start, self.method.is_2022()) {
            (None, _) => LENGTH,
            (Some(_), false) => salt + LENGTH,
            (Some(_), true) => salt + 1 + 8 + salt + 2 + TAG,
        }
    }

    fn tail(&self) -> usize {
        TAG
    }

    fn seal(&mut self, chunk: &mut [u8], payload: usize, random: &mut dyn Random) -> usize {
        let head_length = self.head();
        let salt_length = self.method.key_length();
        if let Some(start) = self.start.take() {
            let (head, rest) = chunk.split_at_mut(head_length);
            let (salt, header) = head.split_at_mut(salt_length);
            random.fill(salt);
            let mut body = StreamSeal::new(self.method, session_key(self.method, &start.key, salt));
            let length = (payload as u16).to_be_bytes();
            if self.method.is_2022() {
                header[0] = 1;
                header[1..9].copy_from_slice(&(start.clock)().to_be_bytes());
                header[9..9 + salt_length].copy_from_slice(&start.request_salt[..salt_length]);
                header[9 + salt_length..11 + salt_length].copy_from_slice(&length);
            } else {
                header[..2].copy_from_slice(&length);
            }
            let plain = header.len() - TAG;
            body.body(header, plain);
            body.body(rest, payload);
            self.body = Some(body);
            return head_length + payload + TAG;
        }
        match &mut self.body {
            Some(body) => body.seal(chunk, payload, random),
            None => 0,
        }
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}

    fn chunks_ahead(&self) -> usize {
        if self.start.is_some() { 1 } else { usize::MAX }
    }
}
