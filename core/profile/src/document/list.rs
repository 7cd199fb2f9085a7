//! Links anywhere in a text: one a line, several a line, in prose, in quotes, glued together, folded.

use super::{Builder, DEEPEST_WRAP};
use crate::error::{ErrorKind, ParseError};
use crate::link::scheme::{self, Scheme};
use crate::link::{is_http_proxy, parse_link};
use crate::node::{Node, Secret};
use crate::redact::redact;
use crate::text::{base64_text, is_blank, shown, trim};

/// How much of the lines that follow a link may belong to it (folded base64).
const LONGEST_FOLD: usize = 16 << 10;

/// Whether there is anything that looks like the start of a link.
pub(super) fn has_link(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| start_at(text, at).is_some())
}

/// Lines with their numbers, whatever ends them.
#[derive(Clone)]
struct Lines<'a> {
    rest: &'a str,
    number: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.find(['\n', '\r']).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix(['\n', '\r'])).unwrap_or(rest);
        self.number += 1;
        Some((self.number, line))
    }
}

/// Reads all links of `text`.
pub(super) fn read(text: &str, out: &mut Builder, wraps: usize) {
    let mut lines = Lines { rest: text, number: 0 };
    while let Some((number, line)) = lines.next() {
        let line = trim(line);
        if line.is_empty() || is_comment(line, out) {
            continue;
        }
        let starts = starts(line);
        if starts.is_empty() {
            read_block(line, out, wraps);
            continue;
        }
        for (index, start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).map_or(line.len(), |next| next.at);
            let found =
                Found { line, start: *start, end, number, whole: trim(text).len() == line.len() && starts.len() == 1 };
            let last = index + 1 == starts.len();
            found.read(out, last.then_some(&mut lines));
        }
    }
}

/// A line of base64 amid others may hold links of its own.
fn read_block(line: &str, out: &mut Builder, wraps: usize) {
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_' | b'=');
    if wraps < DEEPEST_WRAP
        && line.len() >= 16
        && line.bytes().all(base64)
        && let Ok(inner) = base64_text(line)
        && inner.contains("://")
    {
        read(&inner, out, wraps + 1);
    }
}

/// Comments carry headers; a link right behind the comment sign is one that was switched off.
fn is_comment(line: &str, out: &mut Builder) -> bool {
    let Some(rest) = ["//", "#", ";"].iter().find_map(|sign| line.strip_prefix(sign)) else {
        return false;
    };
    let rest = trim(rest.trim_start_matches(['#', '/', ';', '!']));
    out.headers.read_comment(rest) || starts(rest).first().is_none_or(|start| start.at == 0 || !start.proxy)
}

#[derive(Debug, Clone, Copy)]
struct Start {
    /// Where the scheme begins.
    at: usize,
    /// Where `://` begins.
    colon: usize,
    known: Option<Scheme>,
    /// Whether it is the scheme of a proxy rather than of a page or something unknown.
    proxy: bool,
}

fn starts(line: &str) -> Vec<Start> {
    line.match_indices("://").filter_map(|(at, _)| start_at(line, at)).collect()
}

/// The start of a link whose `://` is at `colon`, unless it is a part of something else.
fn start_at(line: &str, colon: usize) -> Option<Start> {
    let bytes = line.as_bytes();
    // Schemes are short; a longer run is base64 with a link glued to it.
    let floor = colon.saturating_sub(64);
    let mut at = colon;
    while at > floor && scheme::is_scheme_byte(bytes[at - 1]) {
        at -= 1;
    }
    let run = &line[at..colon];
    let before = line[..at].chars().next_back();
    let apart = before.is_none_or(|c| is_blank(c) || !c.is_ascii() || "\"'`<>()[]{},;|*!~".contains(c));
    if let Some(known) = Scheme::named(&run.to_ascii_lowercase()) {
        let proxy = !matches!(known, Scheme::Http { .. });
        let embedded = !apart && (!proxy || run.len() <= 3);
        return (!embedded).then_some(Start { at, colon, known: Some(known), proxy });
    }
    if let Some(length) = Scheme::at_end_of(run) {
        let at = colon - length;
        let known = Scheme::named(&line[at..colon].to_ascii_lowercase());
        return Some(Start { at, colon, known, proxy: true });
    }
    (apart && scheme::is_word(run)).then_some(Start { at, colon, known: None, proxy: false })
}

struct Found<'a> {
    line: &'a str,
    start: Start,
    end: usize,
    number: usize,
    /// Whether the link is all there is in the document.
    whole: bool,
}

impl Found<'_> {
    fn read(&self, out: &mut Builder, following: Option<&mut Lines<'_>>) {
        let raw = trim(&self.line[self.start.at..self.end]);
        let body = &self.line[self.start.colon + 3..self.end];
        let Some(known) = self.start.known else {
            let word = shown(&self.line[self.start.at..self.start.colon]);
            let error = ParseError::new(ErrorKind::UnknownScheme, format!("the scheme {word} is unknown"));
            return out.skip(Some(self.number), redact(raw), &error);
        };
        if matches!(known, Scheme::Http { .. }) && !is_http_proxy(self.token(raw).split_once("://").map_or("", |p| p.1))
        {
            if self.whole && !body.contains(is_blank) {
                out.subscription_url = Some(Secret::new(raw));
            }
            return;
        }
        match self.parse(raw) {
            Ok(node) => out.node(node),
            Err(error) => match following.and_then(|lines| unfold(raw, &error, lines)) {
                Some(node) => out.node(node),
                None => out.skip(Some(self.number), redact(raw), &error),
            },
        }
    }

    /// Tries the link to the next one or the end of the line, and up to the next blank or quote.
    fn parse(&self, raw: &str) -> Result<Node, ParseError> {
        let full = strip_tail(raw, self.before());
        let token = strip_tail(self.token(raw), self.before());
        if full == token {
            return parse_link(full);
        }
        let fragment = token.split_once('#').map_or("", |(_, name)| name);
        let encoded = fragment.contains('%');
        let in_front = self.line[..self.start.at].chars().all(|c| is_blank(c) || "-*•>·".contains(c));
        let (first, second) = if in_front && !encoded { (full, token) } else { (token, full) };
        parse_link(first).or_else(|error| parse_link(second).map_err(|_| error))
    }

    fn before(&self) -> Option<char> {
        self.line[..self.start.at].chars().next_back()
    }

    /// Up to the first blank, or to the quote or bracket that closes the one before the link.
    fn token<'t>(&self, raw: &'t str) -> &'t str {
        let close = match self.before() {
            Some(quote @ ('"' | '\'' | '`')) => Some(quote),
            Some('<') => Some('>'),
            _ => None,
        };
        let end = match close {
            Some(close) => raw.find(close),
            None => raw.find(|c| is_blank(c) || matches!(c, '"' | '<' | '>' | '`' | '，' | '。' | '；' | '、')),
        };
        &raw[..end.unwrap_or(raw.len())]
    }
}

/// Without the punctuation that belongs to the text round the link.
fn strip_tail(raw: &str, before: Option<char>) -> &str {
    let mut raw = trim(raw).trim_end_matches([',', ';', '"', '\'', '`', '|', '，', '；']);
    let close = match before {
        Some('(') => Some(')'),
        Some('[') => Some(']'),
        Some('<') => Some('>'),
        _ => None,
    };
    if let Some(close) = close {
        raw = raw.trim_end_matches(['.', ',']).strip_suffix(close).unwrap_or(raw);
    }
    trim(raw)
}

/// A link that goes on in the next lines, as mail programs fold base64.
fn unfold(raw: &str, error: &ParseError, lines: &mut Lines<'_>) -> Option<Node> {
    if !matches!(error.kind, ErrorKind::BadBase64 | ErrorKind::BadJson | ErrorKind::BadEncoding) {
        return None;
    }
    let mut ahead = lines.clone();
    let mut joined = raw.to_owned();
    let mut found = None;
    loop {
        let here = ahead.clone();
        let Some((_, line)) = ahead.next() else { break };
        let line = trim(line);
        let belongs = !line.is_empty() && line.bytes().all(|b| b.is_ascii_graphic()) && !line.contains("://");
        if !belongs || joined.len() + line.len() > LONGEST_FOLD {
            ahead = here;
            break;
        }
        joined.push_str(line);
    }
    if joined.len() > raw.len() {
        found = parse_link(&joined).ok();
    }
    if found.is_some() {
        *lines = ahead;
    }
    found
}
