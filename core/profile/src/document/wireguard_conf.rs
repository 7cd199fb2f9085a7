//! WireGuard configuration files.

use super::Builder;
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::json::Fields;
use crate::link::split_port;
use crate::node::{Node, Protocol, Secret, Wireguard};
use crate::text::trim;

/// Whether there is an `[Interface]` section.
pub(super) fn is_conf(text: &str) -> bool {
    let head = text.get(..text.len().min(4096)).unwrap_or(text);
    head.lines().any(|line| trim(line).eq_ignore_ascii_case("[interface]"))
}

/// One node out of the interface and the first peer that has an endpoint.
pub(super) fn read(text: &str, out: &mut Builder) {
    let mut interface = Fields::default();
    let mut peers: Vec<Fields> = Vec::new();
    let mut section = 0;
    for line in text.lines() {
        let line = line.split(['#', ';']).next().map(trim).unwrap_or_default();
        if line.eq_ignore_ascii_case("[interface]") {
            section = 1;
        } else if line.eq_ignore_ascii_case("[peer]") {
            section = 2;
            peers.push(Fields::default());
        } else if let Some((key, value)) = line.split_once('=') {
            let target = if section == 1 { Some(&mut interface) } else { peers.last_mut() };
            if let Some(Fields(map)) = target {
                let key = trim(key).to_ascii_lowercase();
                let before = map.get(&key).and_then(crate::json::text).map(|old| format!("{old},"));
                map.insert(key, format!("{}{}", before.unwrap_or_default(), trim(value)).into());
            }
        }
    }
    let peer = peers.into_iter().find(|Fields(map)| map.contains_key("endpoint"));
    out.entry(None, "[Interface] …".to_owned(), node(interface, peer.unwrap_or_default()));
}

fn node(mut interface: Fields, mut peer: Fields) -> Result<Node, ParseError> {
    let private = interface.take(&["privatekey"]);
    if private.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no private key"));
    }
    let endpoint = peer.take(&["endpoint"]);
    let (host, port) = split_port(&endpoint);
    let (address, port) = (fields::host(host)?, fields::port(port)?);
    let wireguard = Wireguard {
        private_key: Secret::new(fields::wireguard_key(&private, "private key")?),
        public_key: fields::wireguard_key(&peer.take(&["publickey"]), "peer's public key")?,
        preshared_key: match peer.take(&["presharedkey"]).as_str() {
            "" => None,
            key => Some(Secret::new(fields::wireguard_key(key, "pre-shared key")?)),
        },
        local_address: fields::tunnel_addresses(interface.take_list(&["address"])),
        reserved: fields::reserved(&peer.take(&["reserved"]))
            .or_else(|| fields::reserved(&interface.take(&["reserved"]))),
        mtu: interface.take_number(&["mtu"]),
    };
    let mut node = Node::new("", address, port, Protocol::Wireguard(wireguard));
    for (key, value) in interface.0.into_iter().chain(peer.0) {
        node.extra.insert(key, crate::json::text(&value).unwrap_or_default());
    }
    Ok(node)
}
