//! REALITY, as a stream; and the visit to the real site when the server is none.

mod visit;

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_profile::node::{Reality, Tls};
use culvert_wire::reality::{Options, RealityAuth};
use culvert_wire::{Destination, Host};

use super::browser_tls::{HandshakeError, Judge, TlsConnection, browser, client_config, handshake};
use crate::outbound::{ConnectError, Phase};
use crate::stream::Stream;

/// What a failed handshake usually means.
const HINT: &str = "not a REALITY server, or wrong public key, short id or server name?";

/// The options of a node, checked.
pub fn options(reality: &Reality) -> Result<Options, String> {
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).unwrap_or_default();
    Options::new(
        &decode(&reality.public_key),
        reality.short_id.expose(),
        reality.mldsa65_verify.as_deref().filter(|key| !key.is_empty()).map(decode),
    )
    .map_err(|error| error.to_string())
}

/// Whether these options can be used; the reason when not.
pub fn check(tls: &Tls, reality: &Reality) -> Result<(), String> {
    options(reality)?;
    browser(tls).map(|_| ())
}

/// The handshake with a REALITY server that poses as `name`. When the server does not prove
/// itself, nothing of ours is sent: the connection is used up as a browser's visit to the site.
pub async fn connect<S: Stream + 'static>(
    io: S,
    server: &Destination,
    name: &Host,
    tls: &Tls,
    reality: &Reality,
) -> Result<TlsConnection<S>, ConnectError> {
    let options = options(reality).map_err(ConnectError::NotOffered)?;
    let config = client_config(tls, name, &[]).map_err(ConnectError::NotOffered)?;
    // Pins and the permission to skip checks belong to ordinary TLS; a visit is judged plainly.
    let judge = Judge::new(&Tls::default(), name).map_err(ConnectError::NotOffered)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
    let auth = RealityAuth::new(options, now, Box::new(judge));
    let verdict = auth.verdict();
    let connection = match handshake(io, config, Box::new(auth)).await {
        Ok(connection) => connection,
        Err(error @ HandshakeError::Io(_)) => return Err(error.explain(server, HINT)),
        Err(error @ (HandshakeError::Tls(_) | HandshakeError::Closed)) => {
            return Err(failed(server, error.to_string()));
        }
    };
    if verdict.recognised() {
        return Ok(connection);
    }
    let path = reality.spider_x.as_deref().filter(|path| path.starts_with('/')).unwrap_or("/");
    visit::spawn(connection, name.to_string(), path.to_owned());
    Err(failed(server, "the server showed the real site instead of a proof".to_owned()))
}

fn failed(server: &Destination, problem: String) -> ConnectError {
    ConnectError::Handshake { server: server.to_string(), phase: Phase::Security, problem, hint: HINT }
}
