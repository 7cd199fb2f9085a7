//! Text as it comes out of chats, web pages and panels: base64, escapes, invisible marks.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::{ErrorKind, ParseError};

/// Accepts what people's tools write: any padding, stray trailing bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The unreserved characters of RFC 3986 stay, everything else is escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// White space and marks that don't show.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}'
        )
}

/// `text` without white space, byte order marks and zero-width marks round it.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// Decodes base64 in either alphabet, with any padding, folded or with blanks inside.
pub(crate) fn base64_bytes(text: &str) -> Result<Vec<u8>, ParseError> {
    let text: Cow<'_, str> = if text.contains('%') { percent(text).into() } else { text.into() };
    let mut plain = Vec::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '-' => plain.push(b'+'),
            '_' => plain.push(b'/'),
            '+' | '/' | '=' => plain.push(c as u8),
            _ if c.is_ascii_alphanumeric() => plain.push(c as u8),
            _ if is_blank(c) => {}
            _ => {
                return Err(ParseError::new(ErrorKind::BadBase64, "the base64 text holds other characters"));
            }
        }
    }
    while plain.last() == Some(&b'=') {
        plain.pop();
    }
    if plain.len() % 4 == 1 {
        return Err(ParseError::new(ErrorKind::BadBase64, "the base64 text is cut short"));
    }
    LENIENT.decode(&plain).map_err(|_| ParseError::new(ErrorKind::BadBase64, "the base64 text is broken"))
}

/// Decodes base64 that must hold text; a byte order mark in front goes away.
pub(crate) fn base64_text(text: &str) -> Result<String, ParseError> {
    let bytes = base64_bytes(text)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| ParseError::new(ErrorKind::BadEncoding, "the base64 text holds no UTF-8 text"))?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// Decodes percent escapes once. Bad escapes stay as they are, bytes that are no UTF-8 become U+FFFD.
pub(crate) fn percent(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Escapes everything but unreserved characters.
pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// A node's name: one line, without control characters but the tab.
pub(crate) fn name(text: &str) -> String {
    let mut name = String::with_capacity(text.len().min(512));
    for c in text.chars() {
        match c {
            '\t' => name.push(c),
            '\n' | '\u{2028}' | '\u{2029}' => name.push(' '),
            _ if c.is_control() => {}
            _ => name.push(c),
        }
    }
    trim(&name).to_owned()
}

/// A value for a message: short, printable, in quotes. Only for values that can't be secrets.
pub(crate) fn shown(text: &str) -> String {
    let short: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    format!("“{short}”")
}

/// `None` for an empty text.
pub(crate) fn some(text: impl Into<String>) -> Option<String> {
    let text = text.into();
    if text.is_empty() { None } else { Some(text) }
}

/// The items of a comma list, trimmed, without empty ones.
pub(crate) fn commas(text: &str) -> Vec<String> {
    text.split(',').map(trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Whether a switch is on.
pub(crate) fn yes(text: &str) -> bool {
    let text = trim(text);
    text == "1" || ["true", "yes", "on"].iter().any(|word| text.eq_ignore_ascii_case(word))
}
