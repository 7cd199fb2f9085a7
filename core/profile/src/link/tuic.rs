//! TUIC version 5 links.

use super::security;
use super::split::Parts;
use super::xray::named;
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::node::{Node, Protocol, Secret, Tuic, UserId};
use crate::query::Query;
use crate::text::{percent, some};

/// `tuic://uuid:password@host:port?…#name`.
pub(super) fn parse(parts: &Parts<'_>) -> Result<Node, ParseError> {
    let user = parts.user.unwrap_or_default();
    let (uuid, password) = match user.split_once(':') {
        Some((uuid, password)) => (percent(uuid), percent(password)),
        None => match percent(user).split_once(':') {
            Some((uuid, password)) => (uuid.to_owned(), password.to_owned()),
            None if user.is_empty() => {
                return Err(ParseError::new(ErrorKind::MissingCredential, "there is no uuid:password"));
            }
            None => {
                let reason = "TUIC v4 (a token alone) is not supported; version 5 has uuid:password";
                return Err(ParseError::new(ErrorKind::Unsupported, reason));
            }
        },
    };
    let uuid = fields::uuid(&uuid)?;
    if password.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no password"));
    }
    let (address, port) = parts.server(None)?;
    let mut query = Query::parse(parts.query);
    let tuic = Tuic {
        user: UserId { uuid: Secret::new(uuid), uuid_raw: None },
        password: Secret::new(password),
        congestion_control: some(query.take_word(&[
            "congestion_control",
            "congestion-controller",
            "congestion_controller",
        ])),
        udp_relay_mode: some(query.take_word(&["udp_relay_mode", "udp-relay-mode"])),
        zero_rtt: query.take_yes(&["reduce_rtt", "reduce-rtt", "zero_rtt", "zero_rtt_handshake"]),
        tls: security::options(&mut query),
    };
    query.take(&["security"]);
    let name = named(parts, &mut query);
    let mut node = Node::new(name, address, port, Protocol::Tuic(tuic));
    node.extra = query.left_over();
    Ok(node)
}
