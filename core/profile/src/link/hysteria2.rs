//! Hysteria 2 links, with port lists where a port should stand.

use super::security;
use super::split::Parts;
use super::xray::named;
use crate::error::ParseError;
use crate::fields;
use crate::node::{Hysteria2, Node, Protocol, Secret};
use crate::query::Query;
use crate::text::percent;

/// `hysteria2://[auth@]host[:ports][/]?…#name`.
pub(super) fn parse(parts: &Parts<'_>) -> Result<Node, ParseError> {
    let listed = percent(parts.port);
    let listed = if listed.contains([',', '-']) { Some(fields::ports(&listed)?) } else { None };
    let single = Parts { port: if listed.is_some() { "" } else { parts.port }, ..*parts };
    let (address, port) = single.server(Some(443))?;
    let mut query = Query::parse(parts.query);
    let hopping = query.take(&["mport"]);
    let hopping = if hopping.trim().is_empty() { None } else { Some(fields::ports(&hopping)?.0) };
    let mut password = percent(parts.user.unwrap_or_default());
    if password.is_empty() {
        password = query.take(&["auth"]);
    }
    let obfs = fields::obfs(
        &query.take(&["obfs"]),
        &query.take(&["obfs-password", "obfsParam"]),
        query.take(&["minPacketSize"]).trim().parse().ok(),
        query.take(&["maxPacketSize"]).trim().parse().ok(),
    )?;
    let tls = security::options(&mut query);
    let hysteria2 = Hysteria2 {
        password: Secret::new(password),
        ports: hopping.or_else(|| listed.as_ref().map(|(ports, _)| ports.clone())),
        obfs,
        tls,
        up_mbps: fields::mbps(&query.take(&["upmbps", "up"])),
        down_mbps: fields::mbps(&query.take(&["downmbps", "down"])),
    };
    query.take(&["security"]);
    let name = named(parts, &mut query);
    let port = listed.map_or(port, |(_, first)| first);
    let mut node = Node::new(name, address, port, Protocol::Hysteria2(hysteria2));
    node.extra = query.left_over();
    Ok(node)
}
