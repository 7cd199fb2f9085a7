//! TLS, REALITY and transport out of the parameters of the Xray proposal.

use crate::error::{ErrorKind, ParseError};
use crate::fields;
use crate::framing::{self, Framing};
use crate::node::{Node, Tls, Transport};
use crate::query::Query;
use crate::text::{commas, shown, some, yes};

/// What is to be said about a node because of its parameters.
#[derive(Default)]
pub(crate) struct Remarks {
    /// Why the node can't be used.
    pub(crate) unsupported: Option<(ErrorKind, String)>,
    /// Parameters that were read but must be kept as they are.
    pub(crate) keep: Vec<(&'static str, String)>,
}

impl Remarks {
    /// Closes the reading: what is left of the query goes to `extra`, complaints mark the node.
    pub(crate) fn finish(self, mut node: Node, query: Query) -> Node {
        node.extra = query.left_over();
        for (key, value) in self.keep {
            node.extra.insert(key.to_owned(), value);
        }
        if let Some((kind, reason)) = self.unsupported {
            node.mark_unsupported(kind, reason);
        }
        node
    }
}

/// Reads TLS and REALITY. `default` is whether TLS is on when the link doesn't say.
pub(crate) fn tls(query: &mut Query, default: bool, remarks: &mut Remarks) -> Result<Tls, ParseError> {
    let security = query.take(&["security"]);
    let mut tls = Tls { enabled: default, ..options(query) };
    let reality = match security.trim().to_ascii_lowercase().as_str() {
        "" => !query.peek("pbk").is_empty(),
        "none" => {
            tls.enabled = false;
            false
        }
        "tls" => {
            tls.enabled = true;
            false
        }
        "reality" => true,
        "xtls" => {
            return Err(ParseError::new(
                ErrorKind::Unsupported,
                "XTLS (old) was removed from Xray; ask for a new link",
            ));
        }
        other => {
            remarks.unsupported = Some((ErrorKind::BadSecurity, format!("unknown security {}", shown(other))));
            remarks.keep.push(("security", security.clone()));
            false
        }
    };
    if reality {
        let (key, id) = (query.take(&["pbk", "publicKey"]), query.take(&["sid", "shortId"]));
        let spider = some(query.take(&["spx", "spiderX"]));
        tls.reality = Some(fields::reality(&key, &id, spider, some(query.take(&["pqv"])))?);
        tls.enabled = true;
    }
    Ok(tls)
}

/// TLS options that mean the same in all links.
pub(crate) fn options(query: &mut Query) -> Tls {
    let insecure =
        query.take_yes(&["allowInsecure", "insecure", "allow_insecure", "skip-cert-verify", "allow-insecure"]);
    let verify = query.take_word(&["verify_cert"]);
    Tls {
        enabled: true,
        sni: some(query.take(&["sni", "peer", "servername", "tlsServerName"]).trim()),
        alpn: commas(&query.take(&["alpn"])),
        fingerprint: some(query.take_word(&["fp", "fingerprint"])),
        insecure: insecure || verify == "false" || verify == "0",
        pin_sha256: some(fields::pins(&query.take(&["pcs", "pinSHA256"]))),
        ech: some(query.take(&["ech"])),
        disable_sni: yes(&query.take(&["disable_sni", "disable-sni"])),
        reality: None,
    }
}

/// Reads the transport. Only the parameters that the transport has are read; others are left over.
pub(crate) fn transport(query: &mut Query, remarks: &mut Remarks) -> Transport {
    let kind = query.take_word(&["type"]);
    let mut parts = Framing { kind, ..Framing::default() };
    match framing::canonical(&parts.kind) {
        Some("tcp") => {
            parts.header_type = query.take_word(&["headerType"]);
            if parts.header_type == "http" {
                parts.host = query.take(&["host"]);
                parts.path = query.take(&["path"]);
            }
        }
        Some("ws" | "httpupgrade") => {
            parts.host = query.take(&["host"]);
            parts.path = query.take(&["path"]);
            parts.early_data = query.take(&["ed"]).trim().parse().ok().filter(|n| *n > 0);
            parts.early_data_header = query.take(&["eh"]);
        }
        Some("grpc") => {
            parts.service_name = query.take(&["serviceName", "path"]);
            parts.mode = query.take(&["mode"]);
            parts.authority = query.take(&["authority"]);
        }
        Some("http") => {
            parts.host = query.take(&["host"]);
            parts.path = query.take(&["path"]);
        }
        Some("xhttp") => {
            parts.host = query.take(&["host"]);
            parts.path = query.take(&["path"]);
            parts.mode = query.take(&["mode"]);
            let extra = query.take(&["extra"]);
            if !extra.is_empty() {
                parts.extra = framing::xhttp_extra(&extra);
                if parts.extra.is_none() {
                    remarks.unsupported =
                        Some((ErrorKind::BadTransport, "the extra settings of XHTTP are no JSON object".to_owned()));
                    remarks.keep.push(("extra", extra));
                }
            }
        }
        Some("mkcp") => {
            parts.header_type = query.take(&["headerType"]);
            parts.seed = query.take(&["seed"]);
            parts.mtu = query.take(&["mtu"]).trim().parse().ok();
        }
        Some("quic") => {
            parts.header_type = query.take(&["headerType"]);
            parts.quic_security = query.take(&["quicSecurity"]);
            parts.quic_key = query.take(&["key"]);
        }
        Some(_) | None => {}
    }
    parts.build()
}

/// UDP packet encoding: xudp, packetaddr, or none.
pub(crate) fn packet_encoding(text: &str) -> Option<String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "none" => None,
        "packet" => Some("packetaddr".to_owned()),
        other => Some(other.to_owned()),
    }
}
