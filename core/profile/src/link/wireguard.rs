//! WireGuard links, as v2rayN and others write them.

use super::split::Parts;
use super::xray::named;
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::node::{Node, Protocol, Secret, Wireguard};
use crate::query::Query;
use crate::text::{commas, percent};

/// `wireguard://privatekey@host:port?publickey=…#name`.
pub(super) fn parse(parts: &Parts<'_>) -> Result<Node, ParseError> {
    let mut query = Query::parse(parts.query);
    let mut private = percent(parts.user.unwrap_or_default());
    if private.is_empty() {
        private = query.take(&["privatekey", "private_key", "private-key"]);
    }
    if private.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no private key"));
    }
    let (address, port) = parts.server(None)?;
    let public = query.take(&["publickey", "public_key", "public-key", "peer_public_key"]);
    let preshared = query.take(&["presharedkey", "preshared_key", "pre-shared-key", "psk"]);
    let wireguard = Wireguard {
        private_key: Secret::new(fields::wireguard_key(&private, "private key")?),
        public_key: fields::wireguard_key(&public, "peer's public key")?,
        preshared_key: match preshared.as_str() {
            "" => None,
            key => Some(Secret::new(fields::wireguard_key(key, "pre-shared key")?)),
        },
        local_address: fields::tunnel_addresses(commas(&query.take(&["address", "ip", "local_address"]))),
        reserved: fields::reserved(&query.take(&["reserved"])),
        mtu: query.take(&["mtu"]).trim().parse().ok(),
    };
    let name = named(parts, &mut query);
    let mut node = Node::new(name, address, port, Protocol::Wireguard(wireguard));
    node.extra = query.left_over();
    Ok(node)
}
