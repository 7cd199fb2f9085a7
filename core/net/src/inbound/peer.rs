//! Whose program is at the other end of a local connection.

use std::net::SocketAddr;

/// Finds the user of a process on this computer by its end of a connection.
pub trait PeerUser: Send + Sync {
    /// The user id that owns the socket with address `peer` connected to `local`; `None` when it
    /// can't be told (not of this computer, gone already).
    fn user(&self, peer: SocketAddr, local: SocketAddr) -> Option<u32>;

    /// The user that we run as.
    fn own(&self) -> u32;
}

/// Asks the Linux kernel (`sock_diag`, or `/proc/net/tcp` where that is closed to us).
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, Default)]
pub struct LinuxPeerUser;

#[cfg(target_os = "linux")]
impl PeerUser for LinuxPeerUser {
    fn user(&self, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        linux::ask_kernel(peer, local).or_else(|| linux::read_table(peer, local))
    }

    fn own(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::net::{IpAddr, SocketAddr};

    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const HEADER: usize = 16;
    /// Where `idiag_uid` lies in `struct inet_diag_msg` (linux/inet_diag.h).
    const UID_AT: usize = HEADER + 4 + 48 + 12;

    fn address(ip: IpAddr) -> [u8; 16] {
        match ip {
            IpAddr::V4(ip) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&ip.octets());
                bytes
            }
            IpAddr::V6(ip) => ip.octets(),
        }
    }

    /// One exact question: who has the socket `peer` → `local`?
    pub(super) fn ask_kernel(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        let mut request = Vec::with_capacity(72);
        request.extend_from_slice(&72u32.to_ne_bytes());
        request.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        // NLM_F_REQUEST
        request.extend_from_slice(&1u16.to_ne_bytes());
        request.extend_from_slice(&[0; 8]);
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        // family, IPPROTO_TCP, no extensions, padding; all states
        request.extend_from_slice(&[u8::try_from(family.as_raw()).ok()?, 6, 0, 0]);
        request.extend_from_slice(&u32::MAX.to_ne_bytes());
        request.extend_from_slice(&peer.port().to_be_bytes());
        request.extend_from_slice(&local.port().to_be_bytes());
        request.extend_from_slice(&address(peer.ip()));
        request.extend_from_slice(&address(local.ip()));
        request.extend_from_slice(&0u32.to_ne_bytes());
        // No cookie
        request.extend_from_slice(&[0xff; 8]);
        let kernel = socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG)).ok()?;
        send(&kernel, &request, SendFlags::empty()).ok()?;
        let mut answer = [0; 512];
        let (length, _) = recv(&kernel, &mut answer[..], RecvFlags::empty()).ok()?;
        let answer = &answer[..length.min(answer.len())];
        let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
        if kind != SOCK_DIAG_BY_FAMILY {
            return None;
        }
        Some(u32::from_ne_bytes(*answer.get(UID_AT..)?.first_chunk()?))
    }

    /// The same from the text table.
    pub(super) fn read_table(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        let (path, (peer, local)) = match peer {
            SocketAddr::V4(_) => ("/proc/net/tcp", (text(peer), text(local))),
            SocketAddr::V6(_) => ("/proc/net/tcp6", (text(peer), text(local))),
        };
        let table = std::fs::read_to_string(path).ok()?;
        table.lines().skip(1).find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let _slot = fields.next()?;
            if fields.next()? != peer || fields.next()? != local {
                return None;
            }
            // state, queues, timer, retransmits, then the user
            fields.nth(4)?.parse().ok()
        })
    }

    /// An address as the table writes it: words in the machine's order.
    fn text(address: SocketAddr) -> String {
        let bytes = match address.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let words =
            bytes.chunks_exact(4).map(|w| format!("{:08X}", u32::from_ne_bytes(w.try_into().unwrap_or_default())));
        format!("{}:{:04X}", words.collect::<String>(), address.port())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn both_ways_find_our_own_user() {
            let own = rustix::process::geteuid().as_raw();
            for host in ["127.0.0.1:0", "[::1]:0"] {
                let Ok(listener) = std::net::TcpListener::bind(host) else { continue };
                let local = listener.local_addr().unwrap();
                let client = std::net::TcpStream::connect(local).unwrap();
                let peer = client.local_addr().unwrap();
                let _accepted = listener.accept().unwrap();
                assert_eq!(read_table(peer, local), Some(own), "{host}");
                let asked = ask_kernel(peer, local);
                assert!(asked.is_none() || asked == Some(own), "{host}: {asked:?}");
            }
        }
    }
}
