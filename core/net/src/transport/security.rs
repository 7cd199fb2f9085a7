//! Which TLS: rustls, or the browser-like handshakes and REALITY.

use culvert_profile::node::Tls;
use culvert_wire::{Destination, Host};

use super::{browser_tls, reality, tls};
use crate::dial::Dialer;
use crate::outbound::{ConnectError, Phase, Trace};
use crate::stream::BoxStream;

/// Whether these TLS options can be honoured; the reason when not. Nothing that a link asks for
/// is silently left out.
pub fn check(tls: &Tls) -> Result<(), String> {
    if !tls.enabled {
        return Ok(());
    }
    if let Some(reality) = &tls.reality {
        reality::check(tls, reality)?;
    }
    if tls.fingerprint.is_some() {
        browser_tls::browser(tls)?;
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
    let handshake = async {
        if let Some(options) = &tls.reality {
            let connection = reality::connect(stream, server, name, tls, options).await?;
            return Ok(Box::new(connection.into_stream()) as BoxStream);
        }
        if tls.fingerprint.is_some() {
            let connection = browser_tls::connect(stream, server, name, tls, alpn).await?;
            return Ok(Box::new(connection.into_stream()) as BoxStream);
        }
        tls::connect(stream, server, name, tls, alpn).await
    };
    dialer.phase(server, Phase::Security, trace, handshake).await
}
