//! Trojan: the hash of a password and a target inside TLS, then the bytes as they are.

use sha2::{Digest, Sha224};
use subtle::ConstantTimeEq;

use crate::address::Destination;
use crate::address_form::{AddressForm, AddressFormError};

/// The most bytes of one datagram that every peer takes.
pub const MAX_DATAGRAM: usize = 8192;

/// Length of the password's hash in hexadecimal digits.
pub const HASH: usize = 56;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A TCP stream to the destination.
    Connect,
    /// Datagrams, each with its own target.
    Associate,
}

/// The hash of a password, as it goes on the wire.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash([u8; HASH]);

impl PasswordHash {
    /// The hash of `password`.
    pub fn new(password: &str) -> Self {
        let mut digits = [0; HASH];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(Sha224::digest(password)) {
            let digit = |value: u8| {
                if value < 10 { b'0' + value } else { b'a' + value - 10 }
            };
            pair[0] = digit(byte >> 4);
            pair[1] = digit(byte & 15);
        }
        Self(digits)
    }

    /// Whether `input` starts with this hash; takes the same time whatever the answer.
    fn matches(&self, input: &[u8]) -> bool {
        self.0.ct_eq(input).into()
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// Appends a request header.
pub fn put_request(password: &PasswordHash, command: Command, destination: &Destination, out: &mut Vec<u8>) {
    out.extend_from_slice(&password.0);
    out.extend_from_slice(b"\r\n");
    out.push(match command {
        Command::Connect => 1,
        Command::Associate => 3,
    });
    AddressForm::Socks.put(destination, out);
    out.extend_from_slice(b"\r\n");
}

/// A request that a server read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Place of the user in the list.
    pub user: usize,
    /// What is asked for.
    pub command: Command,
    /// The target (for [`Command::Associate`], of no meaning).
    pub destination: Destination,
    /// Bytes that the header took.
    pub consumed: usize,
}

/// Why bytes are no request of a known user. A server hands them to its fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No such user, or no Trojan client at all.
    #[error("no user's password")]
    UnknownUser,
    /// The user is known, but the rest is malformed.
    #[error("the request is malformed")]
    Malformed,
    /// The address can't be read.
    #[error(transparent)]
    Address(#[from] AddressFormError),
}

/// Reads a request from the front of `input`, or `None` when more bytes are needed.
pub fn take_request(users: &[PasswordHash], input: &[u8]) -> Result<Option<Request>, RequestError> {
    let Some((hash, rest)) = input.split_at_checked(HASH) else {
        return Ok(None);
    };
    let user = users.iter().position(|user| user.matches(hash)).ok_or(RequestError::UnknownUser)?;
    let Some((front, address)) = rest.split_at_checked(3) else {
        return Ok(None);
    };
    if &front[..2] != b"\r\n" {
        return Err(RequestError::Malformed);
    }
    let command = match front[2] {
        1 => Command::Connect,
        3 => Command::Associate,
        _ => return Err(RequestError::Malformed),
    };
    let Some((destination, length)) = AddressForm::Socks.take(address)? else {
        return Ok(None);
    };
    match address.get(length..length + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some(Request { user, command, destination, consumed: HASH + 3 + length + 2 })),
        Some(_) => Err(RequestError::Malformed),
    }
}

/// Appends a datagram to or from `peer`. Payload beyond [`MAX_DATAGRAM`] is the caller's to drop.
pub fn put_datagram(peer: &Destination, payload: &[u8], out: &mut Vec<u8>) {
    AddressForm::Socks.put(peer, out);
    out.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(payload);
}

/// Reads a datagram from the front of `input`: its far end, where its payload lies, and so where
/// it ends; `None` when more bytes are needed.
pub fn take_datagram(input: &[u8]) -> Result<Option<(Destination, std::ops::Range<usize>)>, RequestError> {
    let Some((peer, length)) = AddressForm::Socks.take(input)? else {
        return Ok(None);
    };
    let Some(&[high, low, cr, lf]) = input[length..].first_chunk() else {
        return Ok(None);
    };
    if [cr, lf] != *b"\r\n" {
        return Err(RequestError::Malformed);
    }
    let start = length + 4;
    let end = start + usize::from(u16::from_be_bytes([high, low]));
    Ok((input.len() >= end).then_some((peer, start..end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Host;

    #[test]
    fn the_hash_matches_the_vector() {
        assert_eq!(PasswordHash::new("password").0, *b"d63dc919e201d7bc4c825630d2cf25fdc93d4b2f0d46706d29038d01");
    }

    #[test]
    fn requests_read_back_and_wait_for_their_end() {
        let users = [PasswordHash::new("a"), PasswordHash::new("b")];
        let name = "n".repeat(255);
        for host in ["192.0.2.1", "::1", "a.b", name.as_str()] {
            let destination = Destination::new(Host::parse(host).unwrap(), 80);
            let mut out = Vec::new();
            put_request(&users[1], Command::Connect, &destination, &mut out);
            for cut in 0..out.len() {
                assert_eq!(take_request(&users, &out[..cut]), Ok(None));
            }
            let expected = Request { user: 1, command: Command::Connect, destination, consumed: out.len() };
            out.push(0);
            assert_eq!(take_request(&users, &out), Ok(Some(expected)));
            assert_eq!(take_request(&users[..1], &out), Err(RequestError::UnknownUser));
        }
        assert_eq!(take_request(&users, &[b'G'; 57]), Err(RequestError::UnknownUser));
    }

    #[test]
    fn datagrams_read_back() {
        let peer = Destination::new(Host::parse("192.0.2.1").unwrap(), 53);
        let mut out = Vec::new();
        put_datagram(&peer, b"question", &mut out);
        for cut in 0..out.len() {
            assert_eq!(take_datagram(&out[..cut]), Ok(None));
        }
        assert_eq!(take_datagram(&out), Ok(Some((peer, 11..19))));
        out[9] = b'x';
        assert_eq!(take_datagram(&out), Err(RequestError::Malformed));
    }
}
