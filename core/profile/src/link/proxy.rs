//! SOCKS and HTTP proxies as links.

use super::security;
use super::split::Parts;
use super::xray::named;
use crate::error::ParseError;
use crate::node::{Http, Node, Protocol, Secret, Socks, Tls};
use crate::query::Query;
use crate::text::{base64_text, percent};

/// `socks://`, `socks5://`, `socks4://`, …
pub(super) fn socks(parts: &Parts<'_>, version: &str) -> Result<Node, ParseError> {
    let inner;
    let mut parts = *parts;
    if parts.user.is_none()
        && parts.port.is_empty()
        && let Ok(text) = base64_text(parts.host)
        && text.contains('@')
    {
        inner = text;
        let cut = Parts::of(&inner);
        parts = Parts { query: parts.query, fragment: parts.fragment, ..cut };
    }
    let (username, password) = user(parts.user.unwrap_or_default());
    let (address, port) = parts.server(Some(1080))?;
    let mut query = Query::parse(parts.query);
    let name = named(&parts, &mut query);
    let socks = Socks { version: version.to_owned(), username, password };
    let mut node = Node::new(name, address, port, Protocol::Socks(socks));
    node.extra = query.left_over();
    Ok(node)
}

/// `http://` and `https://`, an HTTP proxy that offers CONNECT.
pub(super) fn http(parts: &Parts<'_>, tls: bool) -> Result<Node, ParseError> {
    let (username, password) = user(parts.user.unwrap_or_default());
    let (address, port) = parts.server(Some(if tls { 443 } else { 80 }))?;
    let mut query = Query::parse(parts.query);
    let tls = if tls { security::options(&mut query) } else { Tls::default() };
    let name = named(parts, &mut query);
    let mut node = Node::new(name, address, port, Protocol::Http(Http { username, password, tls }));
    node.extra = query.left_over();
    Ok(node)
}

/// `user:password`, plain or in base64.
fn user(text: &str) -> (Option<String>, Option<Secret>) {
    let pair = |user: &str, password: &str| (Some(user.to_owned()), Some(Secret::new(password)));
    if let Some((user, password)) = text.split_once(':') {
        return pair(&percent(user), &percent(password));
    }
    if text.is_empty() {
        return (None, None);
    }
    let decoded = percent(text);
    if let Ok(inner) = base64_text(&decoded)
        && let Some((user, password)) = inner.split_once(':')
    {
        return pair(user, password);
    }
    match decoded.split_once(':') {
        Some((user, password)) => pair(user, password),
        None => (Some(decoded), None),
    }
}
