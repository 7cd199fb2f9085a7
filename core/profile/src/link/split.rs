//! Cuts a link into its parts, the way that real links need and a general URL parser does not.

use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::text::{name, percent, trim};

/// What stands behind `scheme://`, cut but not decoded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts<'a> {
    /// Before the last `@`, when there is one.
    pub(crate) user: Option<&'a str>,
    pub(crate) host: &'a str,
    /// Empty when there is none.
    pub(crate) port: &'a str,
    /// From the first `/` behind host and port.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) fragment: &'a str,
}

impl<'a> Parts<'a> {
    /// Cuts the fragment at the first `#`, the query at the first `?`, the user at the last `@`,
    /// the port at the last `:` outside of brackets.
    pub(crate) fn of(body: &'a str) -> Self {
        let (rest, fragment) = body.split_once('#').unwrap_or((body, ""));
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = trim(authority);
        let (user, server) = match authority.rsplit_once('@') {
            Some((user, server)) => (Some(user), server),
            None => (None, authority),
        };
        let cut = server.find('/').unwrap_or(server.len());
        let (server, path) = server.split_at(cut);
        let (host, port) = split_port(server);
        Self { user, host, port, path, query, fragment }
    }

    /// The name in the fragment.
    pub(crate) fn name(&self) -> String {
        name(&percent(self.fragment))
    }

    /// The user, decoded; a missing or empty one is an error that names `what`.
    pub(crate) fn credential(&self, what: &str) -> Result<String, ParseError> {
        let user = percent(self.user.unwrap_or_default());
        if user.is_empty() {
            return Err(ParseError::new(ErrorKind::MissingCredential, format!("there is no {what}")));
        }
        Ok(user)
    }

    /// The server's address and port; `default` stands in for a missing port.
    pub(crate) fn server(&self, default: Option<u16>) -> Result<(String, u16), ParseError> {
        if !self.host.starts_with('[') && self.host.contains(':') {
            return Err(ParseError::new(ErrorKind::BadHost, "an IPv6 address needs brackets before a port"));
        }
        let host = fields::host(self.host)?;
        let port = match (trim(self.port).is_empty(), default) {
            (true, Some(port)) => port,
            (true | false, _) => fields::port(&percent(self.port))?,
        };
        Ok((host, port))
    }
}

/// Cuts `host:port`; a bracketed host keeps its brackets.
pub(crate) fn split_port(server: &str) -> (&str, &str) {
    let after = server.rfind(']').map_or(0, |at| at + 1);
    match server[after..].rfind(':') {
        Some(at) => (&server[..after + at], &server[after + at + 1..]),
        None => (server, ""),
    }
}
