//! SOCKS 4, 4a and 5 (RFC 1928, RFC 1929).

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use culvert_wire::socks::{Address, Command, Reply};
use culvert_wire::{Destination, Host};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::connection::{Incoming, is_ourselves};
use super::{HANDSHAKE_LIMIT, Shared, associate};
use crate::inbound::Dispatch;
use crate::inbound::flow::{Answer, Client};

/// The longest user id or name of SOCKS 4.
const MAX_TEXT: usize = 255;

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

async fn in_time<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(HANDSHAKE_LIMIT, step)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the client did not finish its request in time"))?
}

pub(super) async fn serve_v5<D: Dispatch>(mut incoming: Incoming, shared: &Shared, dispatch: &D) -> io::Result<()> {
    let (command, destination) = in_time(request_v5(&mut incoming, shared)).await?;
    match command {
        Command::Connect if is_ourselves(&destination, shared.local) => {
            refuse_v5(&mut incoming, Reply::NotAllowed).await?;
            Err(broken("a client asked for the local port itself"))
        }
        Command::Connect => {
            let flow = incoming.flow(destination);
            dispatch.stream(flow, Client::new(incoming.into_stream(), Answer::Socks5)).await;
            Ok(())
        }
        Command::UdpAssociate => associate::serve(incoming, &destination, dispatch).await,
        Command::Bind | Command::Other(_) => refuse_v5(&mut incoming, Reply::CommandNotSupported).await,
    }
}

async fn refuse_v5(incoming: &mut Incoming, reply: Reply) -> io::Result<()> {
    incoming.stream.write_all(&[5, reply.code(), 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    incoming.stream.shutdown().await
}

async fn request_v5(incoming: &mut Incoming, shared: &Shared) -> io::Result<(Command, Destination)> {
    let head = incoming.take(2).await?;
    let methods = incoming.take(usize::from(head[1])).await?;
    match &shared.login {
        Some(login) => {
            if !methods.contains(&2) {
                incoming.stream.write_all(&[5, 0xff]).await?;
                return Err(broken("a client offered no login"));
            }
            incoming.stream.write_all(&[5, 2]).await?;
            let (user, password) = login_v5(incoming).await?;
            if !login.matches(&user, &password) {
                incoming.stream.write_all(&[1, 1]).await?;
                return Err(broken("a client gave a wrong login"));
            }
            incoming.stream.write_all(&[1, 0]).await?;
        }
        None if methods.contains(&0) => incoming.stream.write_all(&[5, 0]).await?,
        // A client that insists on a login although none is needed: any will do.
        None if methods.contains(&2) => {
            incoming.stream.write_all(&[5, 2]).await?;
            login_v5(incoming).await?;
            incoming.stream.write_all(&[1, 0]).await?;
        }
        None => {
            incoming.stream.write_all(&[5, 0xff]).await?;
            return Err(broken("a client offered no login method that this port knows"));
        }
    }
    let head = incoming.take(4).await?;
    if head[0] != 5 {
        return Err(broken("a SOCKS request of a wrong version"));
    }
    let length = match head[3] {
        1 => 4,
        3 => {
            incoming.need(1).await?;
            1 + usize::from(incoming.buffer[0])
        }
        4 => 16,
        _ => {
            refuse_v5(incoming, Reply::AddressNotSupported).await?;
            return Err(broken("a SOCKS address of an unknown type"));
        }
    };
    incoming.need(length + 2).await?;
    let mut address = vec![head[3]];
    address.extend_from_slice(&incoming.buffer.split_to(length + 2));
    match Address::parse(&address) {
        Ok((destination, _)) => Ok((Command::from(head[1]), destination)),
        Err(_) => {
            refuse_v5(incoming, Reply::GeneralFailure).await?;
            Err(broken("a SOCKS address that can't be used"))
        }
    }
}

async fn login_v5(incoming: &mut Incoming) -> io::Result<(bytes::Bytes, bytes::Bytes)> {
    let head = incoming.take(2).await?;
    if head[0] != 1 {
        return Err(broken("a login of an unknown version"));
    }
    let user = incoming.take(usize::from(head[1])).await?;
    let length = incoming.take(1).await?;
    let password = incoming.take(usize::from(length[0])).await?;
    Ok((user, password))
}

pub(super) async fn serve_v4<D: Dispatch>(mut incoming: Incoming, shared: &Shared, dispatch: &D) -> io::Result<()> {
    let request = in_time(request_v4(&mut incoming, shared)).await;
    match request {
        Ok(destination) if !is_ourselves(&destination, shared.local) => {
            let flow = incoming.flow(destination);
            dispatch.stream(flow, Client::new(incoming.into_stream(), Answer::Socks4)).await;
            Ok(())
        }
        Ok(_) => {
            refuse_v4(&mut incoming).await?;
            Err(broken("a client asked for the local port itself"))
        }
        Err(error) => {
            if error.kind() == io::ErrorKind::InvalidData {
                refuse_v4(&mut incoming).await?;
            }
            Err(error)
        }
    }
}

async fn refuse_v4(incoming: &mut Incoming) -> io::Result<()> {
    incoming.stream.write_all(&[0, 91, 0, 0, 0, 0, 0, 0]).await?;
    incoming.stream.shutdown().await
}

async fn request_v4(incoming: &mut Incoming, shared: &Shared) -> io::Result<Destination> {
    let head = incoming.take(8).await?;
    text_v4(incoming).await?;
    let port = u16::from_be_bytes([head[2], head[3]]);
    let ip = [head[4], head[5], head[6], head[7]];
    // 4a: an address of 0.0.0.x with x ≠ 0 says that a name follows.
    let host = match ip {
        [0, 0, 0, last] if last != 0 => {
            let name = text_v4(incoming).await?;
            let name = std::str::from_utf8(&name).map_err(|_| broken("a SOCKS 4a name that is not text"))?;
            Host::parse(name).map_err(|_| broken("a SOCKS 4a name that can't be used"))?
        }
        _ => Host::Ip(IpAddr::V4(Ipv4Addr::from(ip))),
    };
    if shared.login.is_some() {
        return Err(broken("SOCKS 4 has no login, and this port wants one"));
    }
    if head[1] != 1 {
        return Err(broken("SOCKS 4 serves CONNECT only"));
    }
    Ok(Destination::new(host, port))
}

/// Bytes up to a zero, which is taken too.
async fn text_v4(incoming: &mut Incoming) -> io::Result<bytes::Bytes> {
    loop {
        if let Some(end) = incoming.buffer.iter().position(|byte| *byte == 0) {
            if end > MAX_TEXT {
                return Err(broken("a SOCKS 4 text that is too long"));
            }
            let text = incoming.buffer.split_to(end + 1).freeze();
            return Ok(text.slice(..end));
        }
        if incoming.buffer.len() > MAX_TEXT {
            return Err(broken("a SOCKS 4 text that is too long"));
        }
        incoming.more().await?;
    }
}
