//! Whole documents: subscriptions, configuration files of other programs, pasted text.

mod clash;
mod headers;
mod list;
mod singbox;
mod sip008;
mod structured;
mod wireguard_conf;
mod xray;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use headers::{Headers, UserInfo};

use crate::error::{ErrorKind, ParseError};
use crate::judge::judge;
use crate::node::{Node, Secret};
use crate::text::{self, base64_bytes, trim};

/// Larger documents are refused unread (32 MiB).
pub const LARGEST_DOCUMENT: usize = 32 << 20;
/// More nodes than this are left out and reported.
pub const MOST_NODES: usize = 100_000;
/// More skipped entries than this are only counted.
pub const MOST_SKIPPED: usize = 1000;
/// How often base64 may be wrapped in base64.
const DEEPEST_WRAP: usize = 3;

/// What a document was recognised as, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Nothing but white space.
    Empty,
    /// Links in plain text, one a line or anywhere in prose.
    PlainList,
    /// The same in base64.
    #[serde(rename = "base64-list")]
    Base64List,
    /// Clash or mihomo YAML, or the same as JSON.
    ClashYaml,
    /// sing-box JSON.
    #[serde(rename = "singbox-json")]
    SingBoxJson,
    /// Xray or v2ray JSON.
    XrayJson,
    /// A list of whole Xray configurations.
    XrayJsonArray,
    /// SIP008, the Shadowsocks delivery format.
    Sip008,
    /// A WireGuard configuration file.
    WireguardConf,
    /// A web page.
    Html,
    /// JSON of no known kind.
    UnknownJson,
    /// Nothing known.
    Unknown,
}

/// An entry that gave no node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Line in the (decoded) document, from 1; absent when the format has no lines to speak of.
    pub line: Option<usize>,
    /// What stands there, without its secrets.
    pub input_redacted: String,
    /// The kind, for programs.
    pub kind: ErrorKind,
    /// The reason in words.
    pub reason: String,
}

/// A document, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it is.
    pub format: Format,
    /// Its nodes in order, those that can't be used included.
    pub nodes: Vec<Node>,
    /// Its entries that gave no node; at most [`MOST_SKIPPED`].
    pub skipped: Vec<Skipped>,
    /// How many more were skipped.
    pub skipped_more: usize,
    /// What its comments say about the subscription.
    pub headers: Headers,
    /// What a server answered in place of a subscription: a page's title, an error's message.
    pub message: Option<String>,
    /// The address, when the document is nothing but an `http(s)` address: a subscription to fetch.
    pub subscription_url: Option<Secret>,
}

/// Reads a document of any supported format. Never fails: what can't be read is in `skipped`.
pub fn parse_document(input: &[u8]) -> Document {
    let mut builder = Builder::default();
    if input.len() > LARGEST_DOCUMENT {
        builder.skip(None, String::new(), &ParseError::new(ErrorKind::TooLarge, "the document is larger than 32 MiB"));
        return builder.finish(Format::Unknown);
    }
    let text = decoded(input);
    let format = read(trim(&text), &mut builder, 0);
    builder.finish(format)
}

/// UTF-8, or UTF-16 with a byte order mark; broken bytes become U+FFFD.
fn decoded(input: &[u8]) -> Cow<'_, str> {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = input[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        Cow::Owned(String::from_utf16_lossy(&units))
    };
    match input {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => String::from_utf8_lossy(input),
    }
}

/// Collects nodes and complaints within their limits.
#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    skipped: Vec<Skipped>,
    skipped_more: usize,
    headers: Headers,
    message: Option<String>,
    subscription_url: Option<Secret>,
}

impl Builder {
    fn node(&mut self, mut node: Node) {
        if self.nodes.len() < MOST_NODES {
            judge(&mut node);
            self.nodes.push(node);
        } else if self.skipped_more == 0 {
            let error = ParseError::new(ErrorKind::TooLarge, format!("only the first {MOST_NODES} nodes are taken"));
            self.skip(None, String::new(), &error);
            self.skipped_more += 1;
        } else {
            self.skipped_more += 1;
        }
    }

    fn skip(&mut self, line: Option<usize>, input_redacted: String, error: &ParseError) {
        if self.skipped.len() < MOST_SKIPPED {
            self.skipped.push(Skipped { line, input_redacted, kind: error.kind, reason: error.reason.clone() });
        } else {
            self.skipped_more += 1;
        }
    }

    /// Takes an entry's node, or its complaint with the entry's name.
    fn entry(&mut self, line: Option<usize>, what: String, result: Result<Node, ParseError>) {
        match result {
            Ok(node) => self.node(node),
            Err(error) => self.skip(line, what, &error),
        }
    }

    /// What a server says in place of a subscription, short and in one line.
    fn say(&mut self, message: &str) {
        let short: String = text::name(message).chars().take(200).collect();
        if self.message.is_none() && !short.is_empty() {
            self.message = Some(short);
        }
    }

    fn finish(mut self, format: Format) -> Document {
        if self.nodes.is_empty() && self.skipped.is_empty() {
            let (kind, reason) = match (format, &self.message) {
                (Format::Empty, _) => (ErrorKind::Empty, "the document is empty".to_owned()),
                (_, Some(message)) => (ErrorKind::NoNodes, format!("no nodes; it says: {message}")),
                (_, None) if self.subscription_url.is_some() => {
                    (ErrorKind::NoNodes, "this is the address of a subscription, not a node".to_owned())
                }
                (_, None) => (ErrorKind::NoNodes, "no nodes were found".to_owned()),
            };
            self.skip(None, String::new(), &ParseError::new(kind, reason));
        }
        Document {
            format,
            nodes: self.nodes,
            skipped: self.skipped,
            skipped_more: self.skipped_more,
            headers: self.headers,
            message: self.message,
            subscription_url: self.subscription_url,
        }
    }
}

/// Reads `text`, which is trimmed, by what it looks like.
fn read(text: &str, out: &mut Builder, wraps: usize) -> Format {
    if text.is_empty() {
        return Format::Empty;
    }
    if is_html(text) {
        list::read(text, out, wraps);
        if out.nodes.is_empty() {
            out.skipped.clear();
            out.skipped_more = 0;
            out.say(&title(text).unwrap_or_else(|| "a web page without a title".to_owned()));
            return Format::Html;
        }
        return Format::PlainList;
    }
    if looks_like_json(text)
        && let Some(format) = structured::json(text, out, wraps)
    {
        return format;
    }
    if clash::is_clash(text) {
        clash::read(text, out);
        return Format::ClashYaml;
    }
    if wireguard_conf::is_conf(text) {
        wireguard_conf::read(text, out);
        return Format::WireguardConf;
    }
    if list::has_link(text) {
        list::read(text, out, wraps);
        return Format::PlainList;
    }
    if wraps < DEEPEST_WRAP
        && let Some(inner) = unwrap_base64(text)
    {
        let inner = trim(&inner);
        return match read(inner, out, wraps + 1) {
            Format::PlainList | Format::Unknown | Format::Empty => {
                if out.nodes.is_empty() && out.skipped.is_empty() {
                    out.say(inner);
                }
                Format::Base64List
            }
            format @ (Format::Base64List
            | Format::ClashYaml
            | Format::SingBoxJson
            | Format::XrayJson
            | Format::XrayJsonArray
            | Format::Sip008
            | Format::WireguardConf
            | Format::Html
            | Format::UnknownJson) => format,
        };
    }
    list::read(text, out, wraps);
    if out.nodes.is_empty() {
        if text.len() < 2000 && !text.contains(['\u{fffd}', '\0']) {
            out.say(text.lines().next().unwrap_or_default());
        }
        Format::Unknown
    } else {
        Format::Base64List
    }
}

fn is_html(text: &str) -> bool {
    let head: String = text.chars().take(200).collect::<String>().to_ascii_lowercase();
    head.starts_with('<')
        && ["<!doctype", "<html", "<head", "<body", "<title", "<?xml", "<h1", "<center", "<p>"]
            .iter()
            .any(|tag| head.contains(tag))
}

/// The text between `<title>` and its end, else of the first heading.
fn title(text: &str) -> Option<String> {
    let head = text.get(..text.len().min(64 << 10)).unwrap_or(text);
    let lower = head.to_ascii_lowercase();
    for (open, close) in [("<title", "</title"), ("<h1", "</h1")] {
        if let Some(start) = lower.find(open)
            && let Some(inner) = lower[start..].find('>').map(|at| start + at + 1)
            && let Some(end) = lower[inner..].find(close).map(|at| inner + at)
        {
            let found = trim(&head[inner..end]).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
            if !found.is_empty() {
                return Some(found);
            }
        }
    }
    None
}

/// `{` or `[` in front, comments before it left aside.
fn looks_like_json(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = trim(rest);
        let end = if rest.starts_with("/*") {
            rest.find("*/").map(|at| at + 2)
        } else if rest.starts_with("//") || rest.starts_with('#') {
            rest.find('\n')
        } else {
            return rest.starts_with(['{', '[']) && !wireguard_conf::is_conf(rest);
        };
        match end {
            Some(end) => rest = &rest[end..],
            None => return false,
        }
    }
}

/// Base64 as a whole, or in several padded blocks; `None` unless text comes out.
fn unwrap_base64(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let pad = rest.find('=').unwrap_or(rest.len());
        let (block, after) = rest.split_at(pad);
        rest = after.trim_start_matches(|c: char| c == '=' || text::is_blank(c));
        let bytes = base64_bytes(block).ok()?;
        let inner = std::str::from_utf8(&bytes).ok()?;
        out.push_str(inner);
        out.push('\n');
    }
    let printable = !out.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    (printable && !trim(&out).is_empty()).then_some(out)
}
