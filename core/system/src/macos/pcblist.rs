//! Reads `net.inet.{tcp,udp}.pcblist_n`, the kernel's list of sockets (xnu, `bsd/netinet/in_pcblist.c`).
//!
//! The list is a row of records that each begin with their length and kind, rounded up to eight bytes; a socket is an
//! `xinpcb_n` followed by its `xsocket_n` and others. Reading by length rather than by fixed sizes survives the
//! versions in which records grew.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const KIND_SOCKET: u32 = 0x001;
const KIND_INPCB: u32 = 0x010;
/// `inp_vflag`.
const IPV4: u8 = 1;
const IPV6: u8 = 2;

/// A socket of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) uid: u32,
    pub(crate) pid: u32,
}

/// All sockets in the list; what can't be read is left out.
pub(crate) fn parse(list: &[u8]) -> Vec<Socket> {
    let mut sockets = Vec::new();
    let mut ends = None;
    // The list begins with an `xinpgen`, whose first word is its length.
    let mut rest = skip(list, ne_u32(list, 0));
    while let (Some(length), Some(kind)) = (ne_u32(rest, 0), ne_u32(rest, 4)) {
        let Some(record) =
            usize::try_from(length).ok().filter(|length| *length >= 8).and_then(|length| rest.get(..length))
        else {
            break;
        };
        match kind {
            KIND_INPCB => ends = addresses(record),
            KIND_SOCKET => {
                if let (Some((local, remote)), Some(uid), Some(pid)) =
                    (ends.take(), ne_u32(record, 64), ne_u32(record, 68))
                {
                    sockets.push(Socket { local, remote, uid, pid });
                }
            }
            _ => {}
        }
        rest = skip(rest, Some(length));
    }
    sockets
}

fn addresses(record: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let port = |at: usize| Some(u16::from_be_bytes(record.get(at..at + 2)?.try_into().ok()?));
    let flags = *record.get(44)?;
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = record.get(at..at + 16)?.try_into().ok()?;
        if flags & IPV6 != 0 {
            return Some(IpAddr::V6(bytes.into()));
        }
        // IPv4 stands in the last of four words.
        (flags & IPV4 != 0).then(|| IpAddr::V4(Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15])))
    };
    Some((SocketAddr::new(address(64)?, port(18)?), SocketAddr::new(address(48)?, port(16)?)))
}

fn skip(bytes: &[u8], length: Option<u32>) -> &[u8] {
    length
        .and_then(|length| usize::try_from(length).ok())
        .filter(|length| *length > 0)
        .and_then(|length| bytes.get(length.next_multiple_of(8)..))
        .unwrap_or_default()
}

fn ne_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, length: usize, fill: &[(usize, &[u8])]) -> Vec<u8> {
        let mut out = vec![0; length.next_multiple_of(8)];
        out[0..4].copy_from_slice(&u32::try_from(length).unwrap().to_ne_bytes());
        out[4..8].copy_from_slice(&kind.to_ne_bytes());
        for (at, bytes) in fill {
            out[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        out
    }

    fn list(socket_length: usize) -> Vec<u8> {
        let mut list = record(0, 24, &[]);
        list.extend(record(
            KIND_INPCB,
            104,
            &[(16, &[0, 80]), (18, &[0x1f, 0x90]), (44, &[IPV4]), (60, &[1, 2, 3, 4]), (76, &[127, 0, 0, 1])],
        ));
        list.extend(record(KIND_SOCKET, socket_length, &[(64, &501u32.to_ne_bytes()), (68, &77u32.to_ne_bytes())]));
        list.extend(record(0x20, 205, &[]));
        let mut six = [0; 16];
        six[15] = 1;
        list.extend(record(KIND_INPCB, 104, &[(18, &[0, 53]), (44, &[IPV6]), (64, &six)]));
        list.extend(record(KIND_SOCKET, socket_length, &[(68, &78u32.to_ne_bytes())]));
        list
    }

    #[test]
    fn sockets_of_any_record_length() {
        for length in [76, 104, 128] {
            let sockets = parse(&list(length));
            assert_eq!(sockets.len(), 2);
            assert_eq!(
                sockets[0],
                Socket {
                    local: "127.0.0.1:8080".parse().unwrap(),
                    remote: "1.2.3.4:80".parse().unwrap(),
                    uid: 501,
                    pid: 77
                }
            );
            assert_eq!((sockets[1].local, sockets[1].pid), ("[::1]:53".parse().unwrap(), 78));
        }
    }

    #[test]
    fn any_cut_ends_the_reading() {
        let whole = list(104);
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).len() <= 2);
        }
        assert!(parse(&[0; 64]).is_empty());
    }
}
