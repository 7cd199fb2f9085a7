//! VLESS, Trojan and AnyTLS links, which share the parameters of the Xray proposal.

use super::security::{self, Remarks};
use super::shadowrocket;
use super::split::Parts;
use crate::error::ParseError;
use crate::fields;
use crate::node::{Anytls, Node, Protocol, Secret, Transport, Trojan, Vless};
use crate::query::Query;
use crate::text::{base64_text, percent, some};

/// `vless://uuid@host:port?…#name`, or Shadowrocket's form with the authority in base64.
pub(super) fn vless(body: &str) -> Result<Node, ParseError> {
    let parts = Parts::of(body);
    if parts.user.is_none()
        && let Ok(head) = base64_text(body.split(['?', '#']).next().unwrap_or_default())
        && head.contains('@')
    {
        return shadowrocket::vless(&head, &parts);
    }
    let id = parts.credential("user id (uuid)")?;
    let (address, port) = parts.server(None)?;
    let mut query = Query::parse(parts.query);
    let mut remarks = Remarks::default();
    let vless = Vless {
        user: fields::user_id(&id)?,
        encryption: some(query.take(&["encryption"])).unwrap_or_else(|| "none".to_owned()),
        flow: some(query.take_word(&["flow"])).filter(|flow| flow != "none"),
        tls: security::tls(&mut query, false, &mut remarks)?,
        transport: security::transport(&mut query, &mut remarks),
        packet_encoding: security::packet_encoding(&query.take(&["packetEncoding", "packet-encoding"])),
    };
    let name = named(&parts, &mut query);
    Ok(remarks.finish(Node::new(name, address, port, Protocol::Vless(vless)), query))
}

/// `trojan://password@host:port?…#name`; TLS is on unless the link says no.
pub(super) fn trojan(parts: &Parts<'_>) -> Result<Node, ParseError> {
    let password = parts.credential("password")?;
    let (address, port) = parts.server(Some(443))?;
    let mut query = Query::parse(parts.query);
    let mut remarks = Remarks::default();
    let tls = security::tls(&mut query, true, &mut remarks)?;
    let transport = match odd_transport(&mut query) {
        Some(transport) => transport,
        None => security::transport(&mut query, &mut remarks),
    };
    let name = named(parts, &mut query);
    let trojan = Trojan { password: Secret::new(password), tls, transport };
    Ok(remarks.finish(Node::new(name, address, port, Protocol::Trojan(trojan)), query))
}

/// Three spellings of old panels: `ws=1&wspath=`, `obfs=grpc&path=`, `plugin=obfs-local;obfs=websocket;…`.
fn odd_transport(query: &mut Query) -> Option<Transport> {
    if !query.peek("type").is_empty() {
        return None;
    }
    if crate::text::yes(query.peek("ws")) {
        query.take(&["ws"]);
        let (path, host) = (query.take(&["wspath", "path"]), query.take(&["wshost", "host"]));
        return Some(ws(host, path));
    }
    match query.peek("obfs").to_ascii_lowercase().as_str() {
        "grpc" => {
            query.take(&["obfs"]);
            let service_name = query.take(&["path", "serviceName"]);
            let parts = crate::framing::Framing { kind: "grpc".to_owned(), service_name, ..Default::default() };
            return Some(parts.build());
        }
        "websocket" | "ws" => {
            query.take(&["obfs"]);
            return Some(ws(query.take(&["obfsParam", "host"]), query.take(&["path"])));
        }
        _ => {}
    }
    let (name, options) = super::plugin_options(query.peek("plugin"));
    let option = |key: &str| options.get(key).and_then(crate::json::text).unwrap_or_default();
    if name == "obfs-local" && option("obfs") == "websocket" {
        query.take(&["plugin"]);
        return Some(ws(option("obfs-host"), option("obfs-uri")));
    }
    None
}

fn ws(host: String, path: String) -> Transport {
    crate::framing::Framing { kind: "ws".to_owned(), host, path, ..Default::default() }.build()
}

/// `anytls://password@host[:443]/?…#name`.
pub(super) fn anytls(parts: &Parts<'_>) -> Result<Node, ParseError> {
    let password = parts.credential("password")?;
    let (address, port) = parts.server(Some(443))?;
    let mut query = Query::parse(parts.query);
    let mut remarks = Remarks::default();
    let tls = security::tls(&mut query, true, &mut remarks)?;
    let name = named(parts, &mut query);
    let anytls = Anytls { password: Secret::new(password), tls };
    Ok(remarks.finish(Node::new(name, address, port, Protocol::Anytls(anytls)), query))
}

/// The name in the fragment, or in a `remarks` parameter.
pub(super) fn named(parts: &Parts<'_>, query: &mut Query) -> String {
    let name = parts.name();
    if name.is_empty() { crate::text::name(&query.take(&["remarks", "remark"])) } else { name }
}

/// `uuid` or `method:uuid` as it stands before the `@`.
pub(super) fn user_text(user: &str) -> (Option<String>, String) {
    let user = percent(user);
    match user.split_once(':') {
        Some((method, id)) => (Some(method.to_owned()), id.to_owned()),
        None => (None, user),
    }
}
