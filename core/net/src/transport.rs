//! What lies between the socket and a protocol: dial → security → framing.
//!
//! An adapter of a protocol asks [`connect`] for a stream to its server and puts its own codec on
//! top (see [`crate::chunked::ChunkedStream`]). The stream may delay a handshake of the framing
//! until its first write, to carry those bytes along (early data); adapters never have to know.

pub mod browser_tls;
pub mod reality;
pub mod security;
pub mod tls;
pub mod websocket;

use culvert_profile::node::{Tls, Transport};
use culvert_wire::{Destination, Host};

use crate::dial::Dialer;
use crate::outbound::{ConnectError, Trace};
use crate::stream::BoxStream;

/// Whether `transport` is one that [`connect`] can carry; the reason when it is not.
pub fn check(transport: &Transport, tls: &Tls) -> Result<(), String> {
    security::check(tls)?;
    match transport {
        Transport::Tcp { header_type: None, .. } | Transport::Ws { .. } => Ok(()),
        Transport::Tcp { header_type: Some(kind), .. } if kind == "none" => Ok(()),
        Transport::Tcp { .. } => Err("TCP with a disguise header is not supported yet".to_owned()),
        Transport::Httpupgrade { .. } => Err("HTTP Upgrade is not supported yet".to_owned()),
        Transport::Grpc { .. } => Err("gRPC is not supported yet".to_owned()),
        Transport::Http { .. } => Err("HTTP/2 is not supported yet".to_owned()),
        Transport::Xhttp { .. } => Err("XHTTP is not supported yet".to_owned()),
        Transport::Kcp { .. } => Err("mKCP is not supported yet".to_owned()),
        Transport::Quic { .. } => Err("the QUIC transport is not supported yet".to_owned()),
        Transport::Unknown { name } => Err(format!("the transport {name} is unknown")),
    }
}

/// A stream to `server` over `transport` and `tls`; each phase is marked in `trace`.
pub async fn connect(
    dialer: &Dialer,
    server: &Destination,
    transport: &Transport,
    tls: &Tls,
    trace: &mut Trace,
) -> Result<BoxStream, ConnectError> {
    check(transport, tls).map_err(ConnectError::NotOffered)?;
    let socket = dialer.connect(server, trace).await?;
    over(dialer, Box::new(socket), server, transport, tls, trace).await
}

/// Security and framing over a stream that already reaches `server` (the later hop of a chain).
pub async fn over(
    dialer: &Dialer,
    stream: BoxStream,
    server: &Destination,
    transport: &Transport,
    tls: &Tls,
    trace: &mut Trace,
) -> Result<BoxStream, ConnectError> {
    check(transport, tls).map_err(ConnectError::NotOffered)?;
    let alpn: &[&str] = match transport {
        Transport::Ws { .. } | Transport::Httpupgrade { .. } => &["http/1.1"],
        Transport::Grpc { .. } | Transport::Http { .. } => &["h2"],
        Transport::Tcp { .. }
        | Transport::Xhttp { .. }
        | Transport::Kcp { .. }
        | Transport::Quic { .. }
        | Transport::Unknown { .. } => &[],
    };
    let stream = if tls.enabled {
        let name = server_name(server, transport, tls);
        security::connect(dialer, stream, server, &name, tls, alpn, trace).await?
    } else {
        stream
    };
    match transport {
        Transport::Ws { host, path, early_data, early_data_header } => {
            let authority = host.clone().or_else(|| tls.sni.clone()).unwrap_or_else(|| server.to_string());
            let options = websocket::ClientOptions {
                authority,
                path: path.clone().unwrap_or_default(),
                early_data: early_data.unwrap_or(0) as usize,
                early_data_header: early_data_header.clone(),
            };
            websocket::connect(dialer, stream, server, options, trace).await
        }
        Transport::Tcp { .. }
        | Transport::Httpupgrade { .. }
        | Transport::Grpc { .. }
        | Transport::Http { .. }
        | Transport::Xhttp { .. }
        | Transport::Kcp { .. }
        | Transport::Quic { .. }
        | Transport::Unknown { .. } => Ok(stream),
    }
}

/// The name that TLS asks for: as configured, else the transport's host, else the address.
pub(crate) fn server_name(server: &Destination, transport: &Transport, tls: &Tls) -> Host {
    let configured = tls.sni.as_deref().filter(|s| !s.is_empty());
    let host = match transport {
        Transport::Ws { host, .. } | Transport::Httpupgrade { host, .. } | Transport::Xhttp { host, .. } => {
            host.as_deref()
        }
        Transport::Grpc { authority, .. } => authority.as_deref(),
        Transport::Http { host, .. } => host.as_deref().and_then(|h| h.split(',').next()),
        Transport::Tcp { .. } | Transport::Kcp { .. } | Transport::Quic { .. } | Transport::Unknown { .. } => None,
    };
    let host = host.filter(|h| !h.is_empty()).map(strip_port);
    configured.or(host).and_then(|name| Host::parse(name).ok()).unwrap_or_else(|| server.host.clone())
}

fn strip_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}
