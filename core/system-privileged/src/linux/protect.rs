//! Sockets that pass beside the tunnel.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use socket2::{Domain, SockRef};

use super::netlink::Netlink;
use super::routing;

/// Makes an unconnected socket pass beside the tunnel: marked where that is permitted
/// (CAP_NET_ADMIN), else bound to the link that the main table reaches `target` by. A bound socket
/// does not follow when the link changes. A target on this machine or on a link of it (no router
/// between) is not bound.
///
/// # Errors
/// Neither is permitted, or no route leads to the target.
pub fn protect(socket: &impl AsFd, mark: u32, target: IpAddr) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match socket.set_mark(mark) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        other => return other,
    }
    if target.is_loopback() {
        return Ok(());
    }
    let mut netlink = Netlink::route()?;
    let way = routing::way_to(&mut netlink, target)?.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NetworkUnreachable, "no link of this machine leads to the target")
    })?;
    if way.on_link {
        return Ok(());
    }
    let interfaces = routing::interfaces(&mut netlink)?;
    let (_, name) = interfaces
        .iter()
        .find(|(index, _)| *index == way.interface)
        .ok_or_else(|| io::Error::other("the link to the target has just gone"))?;
    socket.bind_device(Some(name.as_bytes()))
}

/// Marks an internet socket, and does nothing else: what the helper does for its caller.
///
/// # Errors
/// No CAP_NET_ADMIN, or the descriptor is not an internet socket.
pub fn mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    let socket = SockRef::from(socket);
    if ![Domain::IPV4, Domain::IPV6].contains(&socket.domain()?) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not an internet socket"));
    }
    socket.set_mark(mark)
}
