//! Which TLS: rustls, or the browser-like handshakes and REALITY.

use culvert_profile::node::Tls;
use culvert_wire::{Destination, Host};

use super::tls;
use crate::dial::Dialer;
use crate::outbound::{ConnectError, Phase, Trace};
use crate::stream::BoxStream;

/// Whether these TLS options can be honoured; the reason when not. Nothing that a link asks for
/// is silently left out.
pub fn check(tls: &Tls) -> Result<(), String> {
    if !tls.enabled {
        return Ok(());
    }
    if tls.reality.is_some() {
        return Err("REALITY is not supported yet".to_owned());
    }
    if tls.ech.is_some() {
        return Err("Encrypted ClientHello is not supported yet".to_owned());
    }
    Ok(())
}

/// The handshake with `server` under `name`; `alpn` is used when the options name none.
pub async fn connect(
    dialer: &Dialer,
    stream: BoxStream,
    server: &Destination,
    name: &Host,
    tls: &Tls,
    alpn: &[&str],
    trace: &mut Trace,
) -> Result<BoxStream, ConnectError> {
    check(tls).map_err(ConnectError::NotOffered)?;
    let handshake = tls::connect(stream, server, name, tls, alpn);
    dialer.phase(server, Phase::Security, trace, handshake).await
}
