//! SOCKS 4, 4a and 5 on the mixed port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use culvert_wire::socks::{Address, AddressError, Command, Reply};
use culvert_wire::{Destination, Host, Network};

use super::incoming::Incoming;
use super::{Port, associate, malformed, refused};
use crate::inbound::flow::{Answer, Client, Dispatching, reply_v5};

const REJECTED_V4: [u8; 8] = [0, 91, 0, 0, 0, 0, 0, 0];

/// Nothing is left to do.
fn served() -> Dispatching {
    Box::pin(async {})
}

/// A SOCKS 4 or 4a request. The handshake's result is the flow, to be awaited without its limit.
pub(super) async fn serve_v4(mut client: Incoming, peer: SocketAddr, port: &Port) -> io::Result<Dispatching> {
    let head = client.take(8).await?;
    let user = client.take_text().await?;
    let target_port = u16::from_be_bytes([head[2], head[3]]);
    let ip = Ipv4Addr::new(head[4], head[5], head[6], head[7]);
    let host = if head[4..7] == [0, 0, 0] && head[7] != 0 {
        let name = client.take_text().await?;
        std::str::from_utf8(&name).ok().and_then(|name| Host::parse(name).ok())
    } else {
        Some(Host::Ip(ip.into()))
    };
    // SOCKS 4 has no password: it is for ports without one, or users with an empty one.
    let allowed = port.options.login.as_ref().is_none_or(|login| login.matches(&user, b""));
    let destination = host.map(|host| Destination::new(host, target_port));
    match destination {
        Some(destination) if head[1] == 1 && allowed && !port.is_ourselves(&destination) => {
            let flow = port.flow(peer, destination, Network::Tcp, None);
            let client = Client { stream: client.into_stream(), answer: Answer::Socks4 };
            Ok(port.dispatch.dispatch_stream(flow, client))
        }
        Some(_) | None => {
            client.send_last(&REJECTED_V4).await?;
            Err(refused("a SOCKS 4 request is refused"))
        }
    }
}

/// A SOCKS 5 session up to its request.
pub(super) async fn serve_v5(mut client: Incoming, peer: SocketAddr, port: &Port) -> io::Result<Dispatching> {
    let head = client.take(2).await?;
    let methods = client.take(usize::from(head[1])).await?;
    // Ours to choose: with a login only that; without one preferably none, but a client that
    // insists on logging in may.
    let method = match &port.options.login {
        Some(_) if methods.contains(&2) => 2,
        None if methods.contains(&0) => 0,
        None if methods.contains(&2) => 2,
        Some(_) | None => {
            client.send_last(&[5, 0xff]).await?;
            return Err(refused("a SOCKS 5 client offers no way to log in that we accept"));
        }
    };
    client.send(&[5, method]).await?;
    let mut user = None;
    if method == 2 {
        let head = client.take(2).await?;
        if head[0] != 1 {
            return Err(malformed("a SOCKS 5 login has an unknown version"));
        }
        let name = client.take(usize::from(head[1])).await?;
        let length = client.take(1).await?;
        let password = client.take(usize::from(length[0])).await?;
        if let Some(login) = &port.options.login {
            if !login.matches(&name, &password) {
                client.send_last(&[1, 1]).await?;
                return Err(refused("a SOCKS 5 login with a wrong name or password"));
            }
            user = Some(Arc::from(login.user.as_str()));
        }
        client.send(&[1, 0]).await?;
    }
    let head = client.take(3).await?;
    if head[0] != 5 {
        return Err(malformed("a SOCKS 5 request has another version"));
    }
    let destination = loop {
        match Address::parse(&client.held) {
            Ok((destination, length)) => {
                let _address = client.held.split_to(length);
                break destination;
            }
            Err(AddressError::Incomplete) => {
                if !client.more().await? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(AddressError::UnknownType) => {
                client.send_last(&reply_v5(Reply::AddressNotSupported)).await?;
                return Err(malformed("a SOCKS 5 request with an unknown kind of address"));
            }
            Err(AddressError::BadName) => {
                client.send_last(&reply_v5(Reply::GeneralFailure)).await?;
                return Err(malformed("a SOCKS 5 request with an unusable host name"));
            }
        }
    };
    match Command::from(head[1]) {
        Command::Connect if port.is_ourselves(&destination) => {
            client.send_last(&reply_v5(Reply::NotAllowed)).await?;
            Err(refused("a request for our own port"))
        }
        Command::Connect => {
            let flow = port.flow(peer, destination, Network::Tcp, user);
            let client = Client { stream: client.into_stream(), answer: Answer::Socks5 };
            Ok(port.dispatch.dispatch_stream(flow, client))
        }
        Command::UdpAssociate => {
            let (association, answer) = associate::open(&client.stream, peer, &destination, |d| port.is_ourselves(d))?;
            client.send(&answer).await?;
            let nowhere = Destination::new(Host::Ip([0, 0, 0, 0].into()), 0);
            let flow = port.flow(peer, nowhere, Network::Udp, user);
            let association = association.controlled_by(client.stream);
            Ok(port.dispatch.dispatch_datagrams(flow, Box::new(association)))
        }
        Command::Bind | Command::Other(_) => {
            client.send_last(&reply_v5(Reply::CommandNotSupported)).await?;
            Ok(served())
        }
    }
}
