//! The client's side of a TCP stream.

use subtle::ConstantTimeEq;

use super::keys::{BlockCipher, Keys, LONGEST, SharedKey, session_key};
use super::stream::{AEAD_MAX, StreamOpen, StreamSeal};
use super::{CLOCK_TOLERANCE, Clock, Method};
use crate::address::Destination;
use crate::address_form::AddressForm;
use crate::aead::TAG;
use crate::chunk::{Open, OpenError, Opened};
use crate::random::Random;

/// The most padding of a request, bytes.
pub(super) const MAX_PADDING: usize = 900;

const UNANSWERED_2022: &str = "the server closed the connection without an answer: wrong password, wrong method, or clocks that differ by more than 30 seconds?";
const UNANSWERED: &str =
    "the server closed the connection without an answer: wrong password or method, or the target is unreachable?";

/// Starts streams to one server.
#[derive(Debug, Clone)]
pub struct Client {
    keys: Keys,
}

impl Client {
    /// A client with these keys.
    pub fn new(keys: Keys) -> Self {
        Self { keys }
    }

    /// Starts a stream to `destination`: appends what goes out first, `payload` included, to `out`
    /// (to be sent with a single write), and answers what the rest is sealed and opened with.
    pub fn start(
        &self,
        destination: &Destination,
        payload: &[u8],
        clock: &Clock,
        random: &mut dyn Random,
        out: &mut Vec<u8>,
    ) -> (StreamSeal, ClientOpen) {
        let method = self.keys.method;
        let mut salt = [0; LONGEST];
        let salt_used = method.key_length();
        random.fill(&mut salt[..salt_used]);
        let salt_bytes = &salt[..salt_used];
        out.extend_from_slice(salt_bytes);
        let mut seal = StreamSeal::new(method, session_key(method, &self.keys.user, salt_bytes));

        let mut first = Vec::with_capacity(64 + payload.len());
        AddressForm::Socks.put(destination, &mut first);
        if method.is_2022() {
            self.put_identities(salt_bytes, out);
            let padding = if payload.is_empty() { some_padding(random) } else { 0 };
            first.extend_from_slice(&(padding as u16).to_be_bytes());
            let start = first.len();
            first.resize(start + padding, 0);
            random.fill(&mut first[start..]);
            let (here, rest) = payload.split_at(payload.len().min(usize::from(u16::MAX) - first.len()));
            first.extend_from_slice(here);
            let mut fixed = [0; 11];
            fixed[1..9].copy_from_slice(&clock().to_be_bytes());
            fixed[9..].copy_from_slice(&(first.len() as u16).to_be_bytes());
            seal.message(&fixed, out);
            seal.message(&first, out);
            seal.chunks(rest, out);
        } else {
            let (here, rest) = payload.split_at(payload.len().min(AEAD_MAX - first.len()));
            first.extend_from_slice(here);
            seal.chunks(&first, out);
            seal.chunks(rest, out);
        }
        let open = ClientOpen {
            head: Some(Head { method, key: self.keys.user.clone(), request_salt: salt, clock: clock.clone() }),
            body: None,
        };
        (seal, open)
    }

    fn put_identities(&self, salt: &[u8], out: &mut Vec<u8>) {
        let names = self.keys.identities.iter().skip(1).chain([&self.keys.user]);
        for (key, next) in self.keys.identities.iter().zip(names) {
            if let Some(cipher) = BlockCipher::identity(self.keys.method, key, salt) {
                out.extend_from_slice(&cipher.encrypt(next.identity()));
            }
        }
    }
}

/// 1 to 900.
pub(super) fn some_padding(random: &mut dyn Random) -> usize {
    let mut number = [0; 4];
    random.fill(&mut number);
    1 + u32::from_be_bytes(number) as usize % MAX_PADDING
}

struct Head {
    method: Method,
    key: SharedKey,
    request_salt: [u8; LONGEST],
    clock: Clock,
}

impl Head {
    fn length(&self) -> usize {
        let salt = self.method.key_length();
        if self.method.is_2022() { salt + 1 + 8 + salt + 2 + TAG } else { salt }
    }

    fn read(&self, input: &[u8]) -> Result<StreamOpen, OpenError> {
        let (salt, header) = input.split_at(self.method.key_length());
        let mut body = StreamOpen::new(self.method, session_key(self.method, &self.key, salt));
        if !self.method.is_2022() {
            return Ok(body);
        }
        let mut plain = [0; 1 + 8 + LONGEST + 2 + TAG];
        let plain = &mut plain[..header.len()];
        plain.copy_from_slice(header);
        let length = body.message(plain, "Shadowsocks answer")?;
        let plain = &plain[..length];
        if plain[0] != 1 {
            return Err(OpenError::Malformed("Shadowsocks answer: it is no server's"));
        }
        let mut time = [0; 8];
        time.copy_from_slice(&plain[1..9]);
        check_time(u64::from_be_bytes(time), (self.clock)())?;
        let (request_salt, first) = plain[9..].split_at(self.method.key_length());
        if !bool::from(request_salt.ct_eq(&self.request_salt[..request_salt.len()])) {
            return Err(OpenError::Malformed("Shadowsocks answer: it belongs to another request"));
        }
        body.expect(usize::from(u16::from_be_bytes([first[0], first[1]])));
        Ok(body)
    }
}

pub(super) fn check_time(theirs: u64, ours: u64) -> Result<(), OpenError> {
    let apart = theirs.abs_diff(ours);
    if apart <= CLOCK_TOLERANCE {
        return Ok(());
    }
    let apart = i64::try_from(apart).unwrap_or(i64::MAX);
    let seconds = if theirs > ours { apart } else { -apart };
    Err(OpenError::ClockSkew { seconds, allowed: CLOCK_TOLERANCE as u32 })
}

/// What a client reads: the server's salt (and header), then chunks.
pub struct ClientOpen {
    head: Option<Head>,
    body: Option<StreamOpen>,
}

impl Open for ClientOpen {
    fn max_chunk(&self) -> usize {
        match (&self.body, &self.head) {
            (Some(body), _) => body.max_chunk(),
            (None, Some(head)) if head.method.is_2022() => super::stream::LENGTH + usize::from(u16::MAX) + TAG,
            (None, _) => super::stream::LENGTH + AEAD_MAX + TAG,
        }
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        if let Some(body) = &mut self.body {
            return body.open(input);
        }
        let Some(head) = &self.head else {
            return Err(OpenError::Malformed("Shadowsocks: no header awaited"));
        };
        let length = head.length();
        let Some(header) = input.get(..length) else {
            return Ok(Opened::NeedMore(length));
        };
        self.body = Some(head.read(header)?);
        self.head = None;
        Ok(Opened::Chunk { consumed: length, payload: length..length })
    }

    fn ended(&self, left: usize) -> Result<(), OpenError> {
        match (&self.body, &self.head) {
            (Some(body), _) => body.ended(left),
            (None, Some(head)) if head.method.is_2022() => Err(OpenError::Unanswered(UNANSWERED_2022)),
            (None, _) => Err(OpenError::Unanswered(UNANSWERED)),
        }
    }
}
