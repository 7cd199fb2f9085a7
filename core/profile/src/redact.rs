//! Links and addresses without their secrets, for messages and logs.

use crate::fields;
use crate::link::scheme;
use crate::text::{self, percent};

/// What of `input` may be shown: a link's scheme, server and name; of anything else, nothing but its length.
///
/// ```
/// assert_eq!(culvert_profile::redact("vless://0d4170f2@example.com:443?pbk=key#Home"), "vless://…@example.com:443#Home");
/// ```
pub fn redact(input: &str) -> String {
    let input = text::trim(input);
    let Some((word, body)) = input.split_once("://").filter(|(word, _)| scheme::is_word(word)) else {
        return format!("… ({} characters)", input.chars().count());
    };
    let (rest, fragment) = body.split_once('#').unwrap_or((body, ""));
    let authority = rest.split('?').next().unwrap_or_default();
    let server = authority.rsplit_once('@').and_then(|(_, server)| shown_server(server));
    // A raw `#` in a password makes its rest look like a name; then there is an `@` behind it.
    let name = if server.is_none() || fragment.contains('@') { String::new() } else { text::name(&percent(fragment)) };
    let name: String = name.chars().take(64).collect();
    match (server, name.is_empty()) {
        (None, _) => format!("{word}://…"),
        (Some(server), true) => format!("{word}://…@{server}"),
        (Some(server), false) => format!("{word}://…@{server}#{name}"),
    }
}

/// `host:port`, when it really looks like one.
fn shown_server(server: &str) -> Option<String> {
    let server = server.split('/').next().unwrap_or_default();
    let (host, port) = server.rsplit_once(':')?;
    let port = fields::port(port).ok()?;
    let dotted = host.contains('.') || host.starts_with('[');
    let host = fields::host(host).ok().filter(|_| dotted)?;
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}
