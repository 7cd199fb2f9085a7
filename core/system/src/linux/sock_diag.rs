//! The kernel's answers about sockets (`sock_diag(7)`): user and inode of a socket by its addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::process::Transport;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const HEADER: usize = 16;
/// A request is a header and `struct inet_diag_req_v2`.
const REQUEST: usize = HEADER + 56;
/// `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// The kernel fills at most 32 KiB an answer.
const BUFFER: usize = 32 * 1024;
/// A dump that is longer than this is not worth a connection's wait (about 400,000 sockets).
const ANSWERS_LIMIT: usize = 1024;
const ENOENT: i32 = 2;

/// States of a socket to ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum States {
    All,
    /// TCP sockets that listen.
    Listen,
}

/// A socket as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) uid: u32,
    /// Number under which `/proc/PID/fd` shows it; 0 when no process holds it any more.
    pub(crate) inode: u32,
}

/// The TCP socket with exactly these ends.
pub(crate) fn tcp_by_ends(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    let family = family_of(local.ip());
    let request = request(Transport::Tcp, family, false, u32::MAX, local, remote);
    let mut found = None;
    exchange(&request, |socket| found = Some(socket))?;
    Ok(found)
}

/// All sockets of one family that are bound to a local port.
pub(crate) fn by_local_port(transport: Transport, ipv6: bool, states: States, port: u16) -> io::Result<Vec<Socket>> {
    let any = if ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    let states = match states {
        States::All => u32::MAX,
        States::Listen => 1 << 10,
    };
    let request = request(transport, family_of(any), true, states, SocketAddr::new(any, port), SocketAddr::new(any, 0));
    let mut found = Vec::new();
    exchange(&request, |socket| {
        // Older kernels don't filter UDP by port.
        if socket.local.port() == port {
            found.push(socket);
        }
    })?;
    Ok(found)
}

fn family_of(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    // 2 and 10.
    u8::try_from(family.as_raw()).unwrap_or_default()
}

fn request(
    transport: Transport,
    family: u8,
    dump: bool,
    states: u32,
    local: SocketAddr,
    remote: SocketAddr,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(REQUEST);
    let length = u32::try_from(REQUEST).unwrap_or_default();
    out.extend(length.to_ne_bytes());
    out.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out.extend((NLM_F_REQUEST | if dump { NLM_F_DUMP } else { 0 }).to_ne_bytes());
    out.extend(1u32.to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
    let protocol = match transport {
        Transport::Tcp => 6,
        Transport::Udp => 17,
    };
    out.extend([family, protocol, 0, 0]);
    out.extend(states.to_ne_bytes());
    out.extend(local.port().to_be_bytes());
    out.extend(remote.port().to_be_bytes());
    out.extend(sixteen(local.ip()));
    out.extend(sixteen(remote.ip()));
    out.extend(0u32.to_ne_bytes());
    out.extend([0xff; 8]);
    out
}

fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

fn exchange(request: &[u8], mut found: impl FnMut(Socket)) -> io::Result<()> {
    let dump = request.get(6..8).is_some_and(|flags| flags != NLM_F_REQUEST.to_ne_bytes());
    let kernel = open()?;
    rustix::net::send(&kernel, request, SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER];
    for _ in 0..ANSWERS_LIMIT {
        let (_, length) = rustix::net::recv(&kernel, buffer.as_mut_slice(), RecvFlags::empty())?;
        match parse(buffer.get(..length).unwrap_or(&buffer), &mut found)? {
            Progress::More if dump => {}
            Progress::More | Progress::Done => return Ok(()),
        }
    }
    Ok(())
}

fn open() -> io::Result<OwnedFd> {
    let kernel = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    // The kernel answers at once; this only keeps a surprise from becoming a hang.
    set_socket_timeout(&kernel, Timeout::Recv, Some(Duration::from_secs(1)))?;
    rustix::net::connect(&kernel, &netlink::SocketAddrNetlink::new(0, 0))?;
    Ok(kernel)
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    More,
    Done,
}

fn parse(mut answer: &[u8], found: &mut impl FnMut(Socket)) -> io::Result<Progress> {
    while let (Some(length), Some(kind)) = (ne_u32(answer, 0), ne_u16(answer, 4)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(body) = answer.get(HEADER..length) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is cut short"));
        };
        match kind {
            NLMSG_DONE => return Ok(Progress::Done),
            NLMSG_ERROR => {
                let code = ne_u32(body, 0).unwrap_or_default().cast_signed();
                return match code {
                    0 => Ok(Progress::Done),
                    code if code == -ENOENT => Ok(Progress::Done),
                    code => Err(io::Error::from_raw_os_error(-code)),
                };
            }
            SOCK_DIAG_BY_FAMILY => found(message(body).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?),
            _ => {}
        }
        // Messages start at multiples of four.
        answer = answer.get((length + 3) & !3..).unwrap_or_default();
    }
    Ok(Progress::More)
}

fn message(body: &[u8]) -> Option<Socket> {
    let body: &[u8; MESSAGE] = body.get(..MESSAGE)?.try_into().ok()?;
    let ipv6 = i32::from(body[0]) == libc::AF_INET6;
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
        Some(if ipv6 {
            IpAddr::V6(bytes.into())
        } else {
            IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        })
    };
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    Some(Socket {
        local: SocketAddr::new(address(8)?, port(4)?),
        remote: SocketAddr::new(address(24)?, port(6)?),
        uid: ne_u32(body, 64)?,
        inode: ne_u32(body, 68)?,
    })
}

fn ne_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn ne_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_answers_are_refused_and_errors_are_told() {
        let mut none = |_: Socket| panic!("no socket in there");
        assert_eq!(parse(&[], &mut none).unwrap(), Progress::More);
        let mut error = Vec::new();
        error.extend(20u32.to_ne_bytes());
        error.extend(NLMSG_ERROR.to_ne_bytes());
        error.extend([0; 10]);
        error.extend((-ENOENT).to_ne_bytes());
        assert_eq!(parse(&error, &mut none).unwrap(), Progress::Done);
        error[16..20].copy_from_slice(&(-13i32).to_ne_bytes());
        assert_eq!(parse(&error, &mut none).unwrap_err().raw_os_error(), Some(13));
        for length in 6..error.len() {
            assert!(parse(&error[..length], &mut none).is_err(), "cut at {length}");
        }
        let mut endless = error.clone();
        endless[0..4].copy_from_slice(&0u32.to_ne_bytes());
        assert!(parse(&endless, &mut none).is_err(), "a length of nothing must not loop");
    }
}
