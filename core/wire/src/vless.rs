//! VLESS: a header with the user's identifier, then the bytes as they are.

use std::sync::Arc;

use crate::address::Destination;
use crate::address_form::{AddressForm, AddressFormError};
use crate::chunk::{Open, OpenError, Opened, Seal};
use crate::preamble::{Preamble, Step};
use crate::random::Random;

/// The flow of Vision.
pub const VISION: &str = "xtls-rprx-vision";

/// The most bytes of one datagram that every peer takes.
pub const MAX_DATAGRAM: usize = 8190;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A TCP stream to the destination.
    Tcp,
    /// Datagrams to the destination, each behind its length.
    Udp,
    /// Mux.Cool frames; no destination.
    Mux,
}

/// A request header.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The user's identifier as the client sent it (two of its bytes may carry a route).
    pub user: [u8; 16],
    /// The flow; empty for none.
    pub flow: Arc<str>,
    /// What is asked for.
    pub command: Command,
    /// The target; absent for [`Command::Mux`].
    pub destination: Option<Destination>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("flow", &self.flow)
            .field("command", &self.command)
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

/// Why bytes are no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The version is not 0.
    #[error("unknown VLESS version {0}")]
    Version(u8),
    /// The addons are no protobuf message of the known shape.
    #[error("the addons are malformed")]
    Addons,
    /// The command is unknown.
    #[error("unknown command {0}")]
    Command(u8),
    /// The address can't be read.
    #[error(transparent)]
    Address(#[from] AddressFormError),
}

/// Appends a request header.
pub fn put_request(user: &[u8; 16], flow: &str, command: Command, destination: &Destination, out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(user);
    if flow.is_empty() {
        out.push(0);
    } else {
        // One protobuf field: number 1, length-delimited. Known flows are far below 126 bytes.
        let flow = &flow.as_bytes()[..flow.len().min(125)];
        out.extend_from_slice(&[flow.len() as u8 + 2, 0x0a, flow.len() as u8]);
        out.extend_from_slice(flow);
    }
    match command {
        Command::Tcp => out.push(1),
        Command::Udp => out.push(2),
        Command::Mux => {
            out.push(3);
            return;
        }
    }
    AddressForm::PortFirst.put(destination, out);
}

/// Reads a request header from the front of `input`: it and its length, or `None` when more bytes
/// are needed.
pub fn take_request(input: &[u8]) -> Result<Option<(Request, usize)>, RequestError> {
    const FIXED: usize = 18;
    if let Some(&version) = input.first()
        && version != 0
    {
        return Err(RequestError::Version(version));
    }
    let Some(fixed) = input.first_chunk::<FIXED>() else {
        return Ok(None);
    };
    let mut user = [0; 16];
    user.copy_from_slice(&fixed[1..17]);
    let after = FIXED + usize::from(fixed[17]);
    let (Some(addons), Some(&command)) = (input.get(FIXED..after), input.get(after)) else {
        return Ok(None);
    };
    let flow = flow_of(addons)?;
    let command = match command {
        1 => Command::Tcp,
        2 => Command::Udp,
        3 => {
            return Ok(Some((Request { user, flow, command: Command::Mux, destination: None }, after + 1)));
        }
        other => return Err(RequestError::Command(other)),
    };
    let taken = AddressForm::PortFirst.take(&input[after + 1..])?;
    Ok(taken.map(|(destination, length)| {
        (Request { user, flow, command, destination: Some(destination) }, after + 1 + length)
    }))
}

/// Field 1 of the addons; other fields are passed over.
fn flow_of(mut addons: &[u8]) -> Result<Arc<str>, RequestError> {
    let mut flow = "";
    while !addons.is_empty() {
        let tag = varint(&mut addons)?;
        match tag & 7 {
            0 => {
                varint(&mut addons)?;
            }
            2 => {
                let length = usize::try_from(varint(&mut addons)?).map_err(|_| RequestError::Addons)?;
                let (value, rest) = addons.split_at_checked(length).ok_or(RequestError::Addons)?;
                addons = rest;
                if tag >> 3 == 1 {
                    flow = std::str::from_utf8(value).map_err(|_| RequestError::Addons)?;
                }
            }
            _ => return Err(RequestError::Addons),
        }
    }
    Ok(flow.into())
}

fn varint(input: &mut &[u8]) -> Result<u64, RequestError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(RequestError::Addons)?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(RequestError::Addons)
}

/// The server's answer: version 0 and no addons.
pub const RESPONSE: [u8; 2] = [0, 0];

/// The server's answer, as the client reads it.
#[derive(Debug, Default)]
pub struct Response;

impl Preamble for Response {
    fn read(&mut self, input: &[u8]) -> Result<Step, OpenError> {
        if let Some(&version) = input.first()
            && version != 0
        {
            return Err(OpenError::Malformed("VLESS answer: unknown version (is this a VLESS server?)"));
        }
        let Some(&[_, length]) = input.first_chunk() else {
            return Ok(Step::NeedMore(2));
        };
        let total = 2 + usize::from(length);
        Ok(if input.len() < total { Step::NeedMore(total) } else { Step::Done(total) })
    }

    fn unanswered(&self) -> &'static str {
        "the server closed the connection without an answer: wrong user id or flow?"
    }
}

/// Puts each datagram behind its length.
#[derive(Debug, Default)]
pub struct DatagramSeal;

impl Seal for DatagramSeal {
    fn max_payload(&self) -> usize {
        MAX_DATAGRAM
    }

    fn head(&self) -> usize {
        2
    }

    fn tail(&self) -> usize {
        0
    }

    fn seal(&mut self, chunk: &mut [u8], payload: usize, _random: &mut dyn Random) -> usize {
        chunk[..2].copy_from_slice(&(payload as u16).to_be_bytes());
        2 + payload
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}
}

/// Takes datagrams from behind their lengths; the client's side reads the server's answer first.
#[derive(Debug)]
pub struct DatagramOpen {
    answer: Option<Response>,
}

impl DatagramOpen {
    /// What the client reads.
    pub fn client() -> Self {
        Self { answer: Some(Response) }
    }

    /// What the server reads.
    pub fn server() -> Self {
        Self { answer: None }
    }
}

impl Open for DatagramOpen {
    fn max_chunk(&self) -> usize {
        2 + usize::from(u16::MAX)
    }

    fn open(&mut self, input: &mut [u8]) -> Result<Opened, OpenError> {
        if let Some(answer) = &mut self.answer {
            return Ok(match answer.read(input)? {
                Step::NeedMore(more) => Opened::NeedMore(more),
                Step::Done(consumed) => {
                    self.answer = None;
                    Opened::Chunk { consumed, payload: consumed..consumed }
                }
            });
        }
        let Some(&length) = input.first_chunk() else {
            return Ok(Opened::NeedMore(2));
        };
        let total = 2 + usize::from(u16::from_be_bytes(length));
        if input.len() < total {
            return Ok(Opened::NeedMore(total));
        }
        Ok(Opened::Chunk { consumed: total, payload: 2..total })
    }

    fn ended(&self, left: usize) -> Result<(), OpenError> {
        match (&self.answer, left) {
            (Some(answer), _) => Err(OpenError::Unanswered(answer.unanswered())),
            (None, 0) => Ok(()),
            (None, _) => Err(OpenError::Malformed("VLESS: the connection ended inside a datagram")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Host;

    const USER: [u8; 16] = [7; 16];

    #[test]
    fn requests_read_back_and_wait_for_their_end() {
        let name = "n".repeat(255);
        for host in ["192.0.2.1", "::1", "a.b", name.as_str()] {
            for command in [Command::Tcp, Command::Udp, Command::Mux] {
                for flow in ["", VISION] {
                    let destination = Destination::new(Host::parse(host).unwrap(), 853);
                    let mut out = Vec::new();
                    put_request(&USER, flow, command, &destination, &mut out);
                    for cut in 0..out.len() {
                        assert_eq!(take_request(&out[..cut]), Ok(None));
                    }
                    let length = out.len();
                    out.extend_from_slice(b"tail");
                    let destination = (command != Command::Mux).then_some(destination);
                    let request = Request { user: USER, flow: flow.into(), command, destination };
                    assert_eq!(take_request(&out), Ok(Some((request, length))));
                }
            }
        }
    }

    #[test]
    fn vision_addons_have_their_exact_bytes() {
        let mut out = Vec::new();
        put_request(&USER, VISION, Command::Mux, &Destination::new(Host::parse("a").unwrap(), 1), &mut out);
        assert_eq!(&out[17..20], [0x12, 0x0a, 0x10]);
        assert_eq!(&out[20..36], VISION.as_bytes());
        assert_eq!(out.len(), 37);
    }

    #[test]
    fn unknown_addons_are_passed_over_and_broken_ones_refused() {
        assert_eq!(flow_of(&[0x12, 2, 1, 2, 0x18, 0x80, 1, 0x0a, 1, b'x']).as_deref(), Ok("x"));
        for broken in [&[0x0a][..], &[0x0a, 5, 1], &[0x0b], &[0x0a, 1, 0xff], &[0x80; 11]] {
            assert_eq!(flow_of(broken), Err(RequestError::Addons));
        }
        assert_eq!(take_request(&[1]), Err(RequestError::Version(1)));
    }

    #[test]
    fn answers_may_carry_addons() {
        assert_eq!(Response.read(&[0]), Ok(Step::NeedMore(2)));
        assert_eq!(Response.read(&[0, 3, 1]), Ok(Step::NeedMore(5)));
        assert_eq!(Response.read(&[0, 3, 1, 2, 3, 9]), Ok(Step::Done(5)));
        assert!(Response.read(b"H").is_err());
    }

    #[test]
    fn datagrams_keep_their_bounds() {
        let mut open = DatagramOpen::client();
        let mut wire = vec![0, 0, 0, 2, 5, 6, 0, 0];
        assert_eq!(open.open(&mut wire), Ok(Opened::Chunk { consumed: 2, payload: 2..2 }));
        assert_eq!(open.open(&mut wire[2..]), Ok(Opened::Chunk { consumed: 4, payload: 2..4 }));
        assert_eq!(open.open(&mut wire[6..]), Ok(Opened::Chunk { consumed: 2, payload: 2..2 }));
        assert_eq!(open.open(&mut []), Ok(Opened::NeedMore(2)));
    }
}
