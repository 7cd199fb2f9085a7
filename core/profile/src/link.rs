//! Share links: one line of text that holds one server.

mod hysteria2;
mod proxy;
mod security;
mod shadowrocket;
mod shadowsocks;
mod split;
mod tuic;
mod vmess;
mod wireguard;
mod xray;

pub(crate) mod scheme;
pub(crate) use security::packet_encoding;
pub(crate) use shadowsocks::{option as plugin_option, plugin_name, plugin_options};
pub(crate) use split::split_port;

use crate::error::{ErrorKind, ParseError};
use crate::judge::judge;
use crate::node::Node;
use crate::text::{percent, shown, trim};
use scheme::Scheme;
use split::Parts;

/// Links longer than this are refused (1 MiB; the longest real ones have some 5000 characters).
pub const LONGEST_LINK: usize = 1 << 20;

/// Parses one share link.
///
/// A value that this version does not know (cipher, transport, flow, …) gives a node that is
/// marked `unsupported`; parameters that it does not know are kept in `extra`.
///
/// # Errors
/// Why the link holds no node. The reason never holds a secret.
///
/// ```
/// let node = culvert_profile::parse_link("trojan://secret@example.com:443#Home")?;
/// assert_eq!(node.name, "Home");
/// # Ok::<(), culvert_profile::ParseError>(())
/// ```
pub fn parse_link(text: &str) -> Result<Node, ParseError> {
    let text = trim(text);
    if text.is_empty() {
        return Err(ParseError::new(ErrorKind::Empty, "the text is empty"));
    }
    if text.len() > LONGEST_LINK {
        return Err(ParseError::new(ErrorKind::TooLarge, "the link is longer than 1 MiB"));
    }
    let Some((word, body)) = text.split_once("://") else {
        let whole = if text.get(..40).unwrap_or(text).to_ascii_lowercase().contains("%3a%2f%2f") {
            percent(text)
        } else {
            String::new()
        };
        return if whole.contains("://") {
            parse_link(&whole)
        } else {
            Err(ParseError::new(ErrorKind::UnknownScheme, "this is no share link"))
        };
    };
    let word = word.to_ascii_lowercase();
    let scheme = match Scheme::named(&word) {
        Some(scheme) => scheme,
        None if scheme::is_word(&word) => {
            return Err(ParseError::new(ErrorKind::UnknownScheme, format!("the scheme {} is unknown", shown(&word))));
        }
        None => {
            return Err(ParseError::new(ErrorKind::UnknownScheme, "this is no share link"));
        }
    };
    if let Scheme::Refused(name) = scheme {
        return Err(ParseError::new(ErrorKind::Unsupported, format!("{name} is not supported")));
    }
    let body = trim(body);
    if body.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingBody, "there is nothing behind the scheme"));
    }
    let mut node = match scheme {
        Scheme::Vmess => vmess::parse(body)?,
        Scheme::Vless => xray::vless(body)?,
        Scheme::Trojan => xray::trojan(&Parts::of(body))?,
        Scheme::Anytls => xray::anytls(&Parts::of(body))?,
        Scheme::Shadowsocks => shadowsocks::parse(body)?,
        Scheme::Hysteria2 => hysteria2::parse(&Parts::of(body))?,
        Scheme::Tuic => tuic::parse(&Parts::of(body))?,
        Scheme::Wireguard => wireguard::parse(&Parts::of(body))?,
        Scheme::Socks(version) => proxy::socks(&Parts::of(body), version)?,
        Scheme::Http { tls } => proxy::http(&Parts::of(body), tls)?,
        Scheme::Refused(name) => return Err(ParseError::new(ErrorKind::Unsupported, name)),
    };
    judge(&mut node);
    Ok(node)
}

/// Whether an `http(s)` address looks like a proxy rather than a page or a subscription.
pub(crate) fn is_http_proxy(body: &str) -> bool {
    let parts = Parts::of(body);
    parts.query.is_empty()
        && parts.path.trim_matches('/').is_empty()
        && (parts.user.is_some() || (!parts.port.is_empty() && !body.contains('/')))
}
