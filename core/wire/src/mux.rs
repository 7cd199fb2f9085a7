//! Mux.Cool frames, and XUDP, which is one session of them with number 0.
//!
//! Several sessions share one carrier stream. There is no flow control and no half-close: a reader
//! that falls behind stalls the carrier, and an end is an end both ways.

use std::ops::Range;

use crate::address::{Destination, Network};
use crate::address_form::{AddressForm, AddressFormError};

/// The most bytes of a frame's metadata.
pub const MAX_METADATA: usize = 512;

/// The most payload of a TCP frame that we write, bytes.
pub const MAX_PAYLOAD: usize = 8192;

/// The most payload of an XUDP datagram that every peer takes, bytes.
pub const MAX_XUDP_DATAGRAM: usize = 7526;

const NEW: u8 = 1;
const KEEP: u8 = 2;
const END: u8 = 3;
const KEEP_ALIVE: u8 = 4;
const HAS_DATA: u8 = 1;
const HAS_ERROR: u8 = 2;

/// What a frame does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Opens a session.
    New {
        /// TCP or UDP.
        network: Network,
        /// The target.
        destination: Destination,
    },
    /// Carries data; a datagram's far end may be named.
    Keep {
        /// Target or source of the datagram.
        peer: Option<Destination>,
    },
    /// Ends a session, both ways.
    End {
        /// Whether it failed.
        error: bool,
    },
    /// Keeps the carrier open; its data has no meaning.
    KeepAlive,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The session.
    pub session: u16,
    /// What it does.
    pub status: Status,
    /// Where its data lies in the input, when it has data.
    pub data: Option<Range<usize>>,
    /// Bytes that the frame took.
    pub consumed: usize,
}

/// Why bytes are no frame. Fatal for the carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The metadata is too short or too long.
    #[error("a frame's metadata has {0} bytes")]
    Metadata(usize),
    /// The status is unknown.
    #[error("unknown frame status {0}")]
    Status(u8),
    /// The network is unknown.
    #[error("unknown network {0}")]
    Network(u8),
    /// The address can't be read.
    #[error(transparent)]
    Address(#[from] AddressFormError),
}

fn network_byte(network: Network) -> u8 {
    match network {
        Network::Tcp => 1,
        Network::Udp => 2,
    }
}

/// Appends a frame. `global_id` follows the address of a new UDP session (all zero: none); it is
/// left out of everything else. `data` is cut at 65,535 bytes.
pub fn put_frame(session: u16, status: &Status, global_id: Option<[u8; 8]>, data: Option<&[u8]>, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&session.to_be_bytes());
    let data_bit = if data.is_some() { HAS_DATA } else { 0 };
    match status {
        Status::New { network, destination } => {
            out.extend_from_slice(&[NEW, data_bit, network_byte(*network)]);
            AddressForm::PortFirst.put(destination, out);
            if let (Network::Udp, Some(id)) = (network, global_id) {
                out.extend_from_slice(&id);
            }
        }
        Status::Keep { peer } => {
            out.extend_from_slice(&[KEEP, data_bit]);
            if let Some(peer) = peer {
                out.push(network_byte(Network::Udp));
                AddressForm::PortFirst.put(peer, out);
            }
        }
        Status::End { error } => {
            out.extend_from_slice(&[END, data_bit | if *error { HAS_ERROR } else { 0 }]);
        }
        Status::KeepAlive => out.extend_from_slice(&[KEEP_ALIVE, data_bit]),
    }
    let metadata = (out.len() - begin - 2) as u16;
    out[begin..begin + 2].copy_from_slice(&metadata.to_be_bytes());
    if let Some(data) = data {
        let data = &data[..data.len().min(usize::from(u16::MAX))];
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
    }
}

/// Reads a frame from the front of `input`, or `None` when more bytes are needed.
pub fn take_frame(input: &[u8]) -> Result<Option<Frame>, FrameError> {
    let Some(&length) = input.first_chunk() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes(length));
    if !(4..=MAX_METADATA).contains(&length) {
        return Err(FrameError::Metadata(length));
    }
    let Some(metadata) = input.get(2..2 + length) else {
        return Ok(None);
    };
    let session = u16::from_be_bytes([metadata[0], metadata[1]]);
    let option = metadata[3];
    let status = match metadata[2] {
        NEW => {
            let (network, destination) = address(&metadata[4..])?.ok_or(FrameError::Metadata(length))?;
            Status::New { network, destination }
        }
        // Metadata beyond what is known is passed over; an address is told by the network before it.
        KEEP => Status::Keep {
            peer: match metadata.get(4) {
                Some(2) => address(&metadata[4..])?.map(|(_, peer)| peer),
                Some(_) | None => None,
            },
        },
        END => Status::End { error: option & HAS_ERROR != 0 },
        KEEP_ALIVE => Status::KeepAlive,
        other => return Err(FrameError::Status(other)),
    };
    let end = 2 + length;
    if option & HAS_DATA == 0 {
        return Ok(Some(Frame { session, status, data: None, consumed: end }));
    }
    let Some(&size) = input[end..].first_chunk() else {
        return Ok(None);
    };
    let start = end + 2;
    let consumed = start + usize::from(u16::from_be_bytes(size));
    Ok((input.len() >= consumed).then_some(Frame { session, status, data: Some(start..consumed), consumed }))
}

fn address(metadata: &[u8]) -> Result<Option<(Network, Destination)>, FrameError> {
    let Some((&network, rest)) = metadata.split_first() else {
        return Ok(None);
    };
    let network = match network {
        1 => Network::Tcp,
        2 => Network::Udp,
        other => return Err(FrameError::Network(other)),
    };
    Ok(AddressForm::PortFirst.take(rest)?.map(|(destination, _)| (network, destination)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Host;

    fn target(host: &str) -> Destination {
        Destination::new(Host::parse(host).unwrap(), 80)
    }

    #[test]
    fn frames_read_back_and_wait_for_their_end() {
        let name = "n".repeat(255);
        let statuses = [
            Status::New { network: Network::Tcp, destination: target("a.b") },
            Status::New { network: Network::Udp, destination: target(&name) },
            Status::Keep { peer: None },
            Status::Keep { peer: Some(target("::1")) },
            Status::End { error: false },
            Status::End { error: true },
            Status::KeepAlive,
        ];
        for status in statuses {
            for data in [None, Some(&b""[..]), Some(&b"payload"[..])] {
                let mut out = Vec::new();
                put_frame(7, &status, Some([1; 8]), data, &mut out);
                for cut in 0..out.len() {
                    assert_eq!(take_frame(&out[..cut]), Ok(None));
                }
                let length = out.len();
                out.extend_from_slice(b"next");
                let frame = take_frame(&out).unwrap().unwrap();
                assert_eq!((frame.session, &frame.status, frame.consumed), (7, &status, length));
                assert_eq!(frame.data.map(|range| &out[range]), data);
            }
        }
    }

    #[test]
    fn known_bytes() {
        let mut out = Vec::new();
        let status = Status::New { network: Network::Tcp, destination: target("1.2.3.4") };
        put_frame(1, &status, None, Some(b"x"), &mut out);
        assert_eq!(out, [0, 12, 0, 1, 1, 1, 1, 0, 80, 1, 1, 2, 3, 4, 0, 1, b'x']);
        out.clear();
        put_frame(0x63, &Status::End { error: false }, None, None, &mut out);
        assert_eq!(out, [0, 4, 0, 0x63, 3, 0]);
    }

    #[test]
    fn hostile_frames_are_refused() {
        assert_eq!(take_frame(&[0, 3]), Err(FrameError::Metadata(3)));
        assert_eq!(take_frame(&[2, 1]), Err(FrameError::Metadata(513)));
        assert_eq!(take_frame(&[0, 4, 0, 1, 9, 0]), Err(FrameError::Status(9)));
        assert_eq!(take_frame(&[0, 5, 0, 1, 1, 0, 3]), Err(FrameError::Network(3)));
        assert_eq!(take_frame(&[0, 4, 0, 1, 1, 0]), Err(FrameError::Metadata(4)));
    }
}
