//! Links of the operating system that ask Culvert, or a client that it stands in for, to import something.
//!
//! Nothing here is carried out: the answer is shown, and a person decides.

use crate::document::{Document, parse_document};
use crate::error::{ErrorKind, ParseError};
use crate::node::Secret;
use crate::query::Query;
use crate::text::{base64_text, name, percent, some, trim};

/// What a deep link asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// To add a subscription.
    AddSubscription {
        /// Its `http(s)` address, a secret.
        url: Secret,
        /// Its name, when the link has one.
        name: Option<String>,
    },
    /// To import nodes.
    Import(Box<Document>),
}

/// Schemes whose links carry an address or nodes in a parameter or behind the command.
const CLIENTS: &[&str] = &[
    "culvert",
    "clash",
    "clash-verge",
    "clashmeta",
    "mihomo",
    "sing-box",
    "hiddify",
    "v2rayng",
    "v2rayn",
    "v2raytun",
    "happ",
    "streisand",
    "karing",
    "shadowrocket",
    "nekobox",
    "throne",
    "stash",
    "flclash",
    "sub",
];

/// Whether `text` is a deep link of a client, rather than a share link.
pub fn is_deep_link(text: &str) -> bool {
    client(trim(text)).is_some_and(|(_, rest)| !rest.starts_with("crypt"))
}

fn client(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    CLIENTS.contains(&scheme.as_str()).then_some((scheme, rest))
}

/// Reads a deep link, or anything that a person might drop on the app instead of one: a share
/// link, an `http(s)` address.
///
/// # Errors
/// When it holds neither an `http(s)` address nor a node. The reason holds no secret.
pub fn parse_deep_link(text: &str) -> Result<Action, ParseError> {
    let text = trim(text);
    let Some((scheme, rest)) = client(text) else {
        return content(text, None);
    };
    let (rest, fragment) = rest.split_once('#').map_or((rest, ""), |(rest, name)| (rest, name));
    if scheme == "sub" {
        let head = rest.split('?').next().unwrap_or_default();
        return content(&base64_text(head)?, some(name(&percent(fragment))));
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let command = path.split('/').next().unwrap_or_default();
    let mut parameters = Query::parse(query);
    let title = some(name(&percent(fragment)))
        .or_else(|| some(name(&parameters.take(&["name", "remark", "remarks", "title"]))));
    let url = parameters.take(&["url", "config", "link", "subscription", "content"]);
    if !url.is_empty() {
        return content(&url, title);
    }
    // The address or the nodes stand behind the command, encoded or not: `import/https://…`.
    let behind = rest.strip_prefix(command).unwrap_or(rest).trim_start_matches('/');
    let behind = if behind.is_empty() { command } else { behind };
    let decoded = if behind.contains("://") { behind.to_owned() } else { percent(behind) };
    let inner = if decoded.contains("://") { decoded } else { base64_text(&decoded).unwrap_or(decoded) };
    if inner.starts_with("sub://") {
        return parse_deep_link(&inner);
    }
    let node = !fragment.is_empty() && !is_web(&inner);
    content(&if node { format!("{inner}#{fragment}") } else { inner }, title)
}

fn is_web(text: &str) -> bool {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

fn content(text: &str, title: Option<String>) -> Result<Action, ParseError> {
    let text = trim(text);
    let document = parse_document(text.as_bytes());
    if let Some(url) = document.subscription_url {
        let (address, fragment) = url.expose().split_once('#').unwrap_or((url.expose(), ""));
        let name = title.or_else(|| some(name(&percent(fragment))));
        return Ok(Action::AddSubscription { url: Secret::new(address), name });
    }
    if is_web(text) && !text.contains(char::is_whitespace) && document.nodes.is_empty() {
        return Ok(Action::AddSubscription { url: Secret::new(text), name: title });
    }
    if !document.nodes.is_empty() {
        return Ok(Action::Import(Box::new(document)));
    }
    let reason = document.skipped.into_iter().next();
    Err(match reason {
        Some(skipped) => ParseError { kind: skipped.kind, reason: skipped.reason },
        None => ParseError::new(ErrorKind::NoNodes, "the link holds neither an address nor a node"),
    })
}

#[cfg(test)]
mod tests {
    use super::{Action, is_deep_link, parse_deep_link};

    #[test]
    fn subscriptions_come_out_of_every_client_s_link() {
        let wanted = "https://sub.example.com/s/abc?x=1";
        for (link, title) in [
            ("clash://install-config?url=https%3A%2F%2Fsub.example.com%2Fs%2Fabc%3Fx%3D1&name=Mine", "Mine"),
            ("sing-box://import-remote-profile?url=https%3A%2F%2Fsub.example.com%2Fs%2Fabc%3Fx%3D1#Mine", "Mine"),
            ("hiddify://import/https://sub.example.com/s/abc?x=1#Mine", "Mine"),
            ("hiddify://import/https%3A%2F%2Fsub.example.com%2Fs%2Fabc%3Fx%3D1#Mine", "Mine"),
            ("v2rayng://install-sub?url=https%3A%2F%2Fsub.example.com%2Fs%2Fabc%3Fx%3D1%23Mine", "Mine"),
            ("v2rayng://install-sub/?url=https%3A%2F%2Fsub.example.com%2Fs%2Fabc%3Fx%3D1&name=Mine", "Mine"),
            ("culvert://import/https://sub.example.com/s/abc?x=1", ""),
            ("sub://aHR0cHM6Ly9zdWIuZXhhbXBsZS5jb20vcy9hYmM_eD0x#Mine", "Mine"),
            ("https://sub.example.com/s/abc?x=1#Mine", "Mine"),
        ] {
            match parse_deep_link(link) {
                Ok(Action::AddSubscription { url, name }) => {
                    assert_eq!(url.expose(), wanted, "{link}");
                    assert_eq!(name.unwrap_or_default(), title, "{link}");
                }
                other => panic!("{link}: {other:?}"),
            }
        }
    }

    #[test]
    fn nodes_come_out_too() {
        for link in [
            "trojan://pw@example.com:443#A",
            "culvert://import/trojan://pw@example.com:443#A",
            "v2rayng://install-config?url=trojan%3A%2F%2Fpw%40example.com%3A443%23A",
        ] {
            match parse_deep_link(link) {
                Ok(Action::Import(document)) => assert_eq!(document.nodes[0].name, "A", "{link}"),
                other => panic!("{link}: {other:?}"),
            }
        }
        assert!(parse_deep_link("culvert://import/file:///etc/passwd").is_err());
        assert!(parse_deep_link("clash://install-config?url=javascript:alert(1)").is_err());
        assert!(is_deep_link("clash://install-config?url=x") && !is_deep_link("happ://crypt/xyz"));
    }
}
