//! Shadowrocket's links: the authority in base64, its own parameter names behind. Kitsunebi's are the same in small.

use super::security::{self, Remarks};
use super::split::Parts;
use super::xray::{named, user_text};
use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::framing::{self, Framing};
use crate::json;
use crate::node::{Node, Protocol, Tls, Transport, UserId, Vless, Vmess};
use crate::query::Query;
use crate::text::{some, yes};

/// VMess out of `method:uuid@host:port` and the parameters behind it.
pub(super) fn vmess(head: &str, outer: &Parts<'_>) -> Result<Node, ParseError> {
    let mut link = Link::read(head, outer)?;
    let vmess = Vmess {
        user: link.user,
        alter_id: link.query.take(&["alterId", "aid"]).trim().parse().unwrap_or(0),
        encryption: super::vmess::cipher(&link.method),
        tls: link.tls,
        transport: link.transport,
        packet_encoding: None,
    };
    Ok(link.remarks.finish(Node::new(link.name, link.address, link.port, Protocol::Vmess(vmess)), link.query))
}

/// VLESS in the same dress; `xtls=2` is Vision.
pub(super) fn vless(head: &str, outer: &Parts<'_>) -> Result<Node, ParseError> {
    let mut link = Link::read(head, outer)?;
    let flow = match link.query.take_word(&["xtls"]).as_str() {
        "" | "0" => some(link.query.take_word(&["flow"])),
        "2" => Some("xtls-rprx-vision".to_owned()),
        other => {
            return Err(ParseError::new(
                ErrorKind::BadFlow,
                format!("unknown flow xtls={}", crate::text::shown(other)),
            ));
        }
    };
    let encryption = some(link.query.take(&["encryption"])).unwrap_or_else(|| "none".to_owned());
    let vless =
        Vless { user: link.user, encryption, flow, tls: link.tls, transport: link.transport, packet_encoding: None };
    Ok(link.remarks.finish(Node::new(link.name, link.address, link.port, Protocol::Vless(vless)), link.query))
}

struct Link {
    name: String,
    address: String,
    port: u16,
    method: String,
    user: UserId,
    tls: Tls,
    transport: Transport,
    query: Query,
    remarks: Remarks,
}

impl Link {
    fn read(head: &str, outer: &Parts<'_>) -> Result<Self, ParseError> {
        let inner = Parts::of(head);
        let (method, id) = user_text(inner.user.unwrap_or_default());
        let user = fields::user_id(&id)?;
        let (address, port) = inner.server(None)?;
        let mut query = Query::parse(outer.query);
        let tls = tls(&mut query)?;
        let transport = transport(&mut query);
        Ok(Self {
            name: named(outer, &mut query),
            address,
            port,
            method: method.unwrap_or_default(),
            user,
            tls,
            transport,
            query,
            remarks: Remarks::default(),
        })
    }
}

fn tls(query: &mut Query) -> Result<Tls, ParseError> {
    let key = query.take(&["pbk"]);
    let on = query.take_word(&["tls", "security"]);
    let mut tls = security::options(query);
    tls.enabled = yes(&on) || matches!(on.as_str(), "tls" | "reality");
    if !key.is_empty() {
        let id = query.take(&["sid"]);
        tls.reality = Some(fields::reality(&key, &id, some(query.take(&["spx"])), some(query.take(&["pqv"])))?);
        tls.enabled = true;
    }
    Ok(tls)
}

fn transport(query: &mut Query) -> Transport {
    let kind = query.take_word(&["obfs", "network", "type"]);
    let param = query.take(&["obfsParam", "wsHost", "host"]);
    let path = query.take(&["path", "wsPath"]);
    let host = match json::parse(&param) {
        Ok(serde_json::Value::Object(map)) => json::Fields(map).take_header("host"),
        Ok(_) | Err(_) => param,
    };
    let mut parts = Framing { host, ..Framing::default() };
    if kind == "http" {
        parts.header_type = kind;
    } else {
        parts.kind = kind;
    }
    if framing::canonical(&parts.kind) == Some("grpc") {
        parts.mode = query.take(&["mode"]);
        let service_name = query.take(&["serviceName"]);
        parts.service_name = if service_name.is_empty() { path } else { service_name };
        parts.authority = std::mem::take(&mut parts.host);
    } else {
        parts.mode = query.take(&["mode"]);
        parts.seed.clone_from(&path);
        parts.path = path;
    }
    parts.build()
}
