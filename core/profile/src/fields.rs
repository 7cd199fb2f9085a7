//! The checks that every format shares: addresses, ports, user ids, keys, ciphers.

use std::net::{IpAddr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::error::{ErrorKind, ParseError};
use crate::node::{Obfs, Reality, Secret, UserId};
use crate::text::{base64_bytes, percent, shown, trim};

/// The longest host name that DNS can carry.
const LONGEST_HOST: usize = 253;

/// A server address: IPv6 with or without brackets, IPv4, or a host name in any script.
pub(crate) fn host(text: &str) -> Result<String, ParseError> {
    let bad = |why: &str| Err(ParseError::new(ErrorKind::BadHost, format!("the server address {why}")));
    let decoded;
    let mut text = trim(text);
    if text.contains('%') {
        decoded = percent(text);
        text = &decoded;
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        text = inner;
        if text.parse::<Ipv6Addr>().is_err() {
            return bad("in brackets is no IPv6 address");
        }
    }
    if text.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingHost, "there is no server address"));
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(ip.to_string());
    }
    if text.len() > 4 * LONGEST_HOST {
        return bad("is too long");
    }
    let ascii = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        match idna::domain_to_ascii(text) {
            Ok(ascii) => ascii,
            Err(_) => return bad("is no host name"),
        }
    };
    if ascii.len() > LONGEST_HOST {
        return bad("is too long");
    }
    if ascii.is_empty() || !ascii.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        return bad("holds characters that no host name has");
    }
    Ok(ascii)
}

/// A port in decimal digits; `443.0` from careless JSON is let through.
pub(crate) fn port(text: &str) -> Result<u16, ParseError> {
    let text = trim(text);
    if text.is_empty() {
        return Err(ParseError::new(ErrorKind::BadPort, "there is no port"));
    }
    let digits = text.strip_suffix(".0").unwrap_or(text);
    let number = if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<u16>().ok() } else { None };
    match number {
        Some(port) if port > 0 => Ok(port),
        _ => Err(ParseError::new(ErrorKind::BadPort, "the port is no number from 1 to 65535")),
    }
}

/// A port list of port hopping: its normal form and its first port.
pub(crate) fn ports(text: &str) -> Result<(String, u16), ParseError> {
    let bad = || ParseError::new(ErrorKind::BadPort, "the port list is no list of ports and ranges");
    let mut first = None;
    let mut items: Vec<String> = Vec::new();
    for item in text.split(',').map(trim).filter(|item| !item.is_empty()) {
        let cut = item.find(['-', ':']);
        let (from, normal) = match cut {
            None => {
                let one = port(item)?;
                (one, one.to_string())
            }
            Some(at) => {
                let (from, to) = (port(&item[..at])?, port(&item[at + 1..])?);
                if from > to {
                    return Err(bad());
                }
                (from, if from == to { from.to_string() } else { format!("{from}-{to}") })
            }
        };
        first.get_or_insert(from);
        items.push(normal);
    }
    Ok((items.join(","), first.ok_or_else(bad)?))
}

/// A UUID in 32 or 36 characters, lower case with dashes.
pub(crate) fn uuid(text: &str) -> Result<String, ParseError> {
    let text = trim(text);
    if text.is_empty() {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no user id (uuid)"));
    }
    match (text.len(), Uuid::try_parse(text)) {
        (32 | 36, Ok(uuid)) => Ok(uuid.hyphenated().to_string()),
        _ => Err(ParseError::new(ErrorKind::BadUuid, "the user id is no UUID")),
    }
}

/// A user id: a UUID, or a text of up to 30 bytes that stands for one, as in Xray.
pub(crate) fn user_id(text: &str) -> Result<UserId, ParseError> {
    let text = trim(text);
    if text.is_empty() || text.len() > 30 {
        return Ok(UserId { uuid: Secret::new(uuid(text)?), uuid_raw: None });
    }
    let mapped = Uuid::new_v5(&Uuid::nil(), text.as_bytes());
    Ok(UserId { uuid: Secret::new(mapped.hyphenated().to_string()), uuid_raw: Some(Secret::new(text)) })
}

/// REALITY from its parts.
pub(crate) fn reality(
    public_key: &str,
    short_id: &str,
    spider_x: Option<String>,
    mldsa65_verify: Option<String>,
) -> Result<Reality, ParseError> {
    let bad = |why: &str| ParseError::new(ErrorKind::BadReality, format!("REALITY: {why}"));
    let public_key = trim(public_key);
    if public_key.is_empty() {
        return Err(bad("there is no public key (pbk)"));
    }
    let key = base64_bytes(public_key).map_err(|_| bad("the public key is no base64"))?;
    if key.len() != 32 {
        return Err(bad("the public key is not 32 bytes long"));
    }
    let short_id = trim(short_id);
    if short_id.len() > 16 || !short_id.len().is_multiple_of(2) || !short_id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(bad("the short id is no even count of up to 16 hex digits"));
    }
    Ok(Reality { public_key: URL_SAFE_NO_PAD.encode(key), short_id: Secret::new(short_id), spider_x, mldsa65_verify })
}

/// A WireGuard key of 32 bytes, in plain base64.
pub(crate) fn wireguard_key(text: &str, which: &str) -> Result<String, ParseError> {
    let key = base64_bytes(text).unwrap_or_default();
    if key.len() != 32 {
        return Err(ParseError::new(ErrorKind::BadKey, format!("the {which} is not 32 bytes of base64")));
    }
    Ok(STANDARD.encode(key))
}

/// Addresses in a tunnel, each with its prefix length.
pub(crate) fn tunnel_addresses<I: IntoIterator<Item = String>>(items: I) -> Vec<String> {
    let with_prefix = |item: String| match (item.contains('/'), item.parse::<IpAddr>()) {
        (false, Ok(IpAddr::V4(ip))) => format!("{ip}/32"),
        (false, Ok(IpAddr::V6(ip))) => format!("{ip}/128"),
        (true | false, _) => item,
    };
    items.into_iter().map(with_prefix).collect()
}

/// The three reserved bytes: `1,2,3` or base64.
pub(crate) fn reserved(text: &str) -> Option<[u8; 3]> {
    let text = trim(text).trim_start_matches('[').trim_end_matches(']');
    let bytes: Vec<u8> = if text.contains(',') {
        text.split(',').map(|item| trim(item).parse::<u8>()).collect::<Result<_, _>>().ok()?
    } else {
        base64_bytes(text).ok()?
    };
    bytes.try_into().ok()
}

/// SHA-256 pins: hex in lower case without colons; other spellings stay.
pub(crate) fn pins(text: &str) -> String {
    let normal = |item: &str| {
        let hex: String = item.chars().filter(|c| *c != ':').collect();
        if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            hex.to_ascii_lowercase()
        } else {
            item.to_owned()
        }
    };
    text.split([',', '~']).map(trim).filter(|item| !item.is_empty()).map(normal).collect::<Vec<_>>().join(",")
}

/// The canonical spelling of a Shadowsocks cipher.
pub(crate) fn shadowsocks_method(text: &str) -> String {
    let lower = trim(text).to_ascii_lowercase();
    match lower.as_str() {
        "chacha20-poly1305" | "aead_chacha20_poly1305" => "chacha20-ietf-poly1305".to_owned(),
        "xchacha20-poly1305" | "aead_xchacha20_poly1305" => "xchacha20-ietf-poly1305".to_owned(),
        "aead_aes_128_gcm" => "aes-128-gcm".to_owned(),
        "aead_aes_192_gcm" => "aes-192-gcm".to_owned(),
        "aead_aes_256_gcm" => "aes-256-gcm".to_owned(),
        "plain" | "dummy" => "none".to_owned(),
        _ => lower,
    }
}

/// Whether a cipher and a password go together.
pub(crate) fn shadowsocks_password(method: &str, password: &str) -> Result<(), ParseError> {
    if password.is_empty() && method != "none" {
        return Err(ParseError::new(ErrorKind::MissingCredential, "there is no password"));
    }
    let length = match method {
        "2022-blake3-aes-128-gcm" => 16,
        "2022-blake3-aes-256-gcm" | "2022-blake3-chacha20-poly1305" | "2022-blake3-chacha8-poly1305" => 32,
        _ => return Ok(()),
    };
    for key in password.split(':') {
        if base64_bytes(key).map(|key| key.len()) != Ok(length) {
            let reason = format!("{} needs keys of {length} bytes in base64", shown(method));
            return Err(ParseError::new(ErrorKind::BadKey, reason));
        }
    }
    Ok(())
}

/// Hysteria 2 packet obfuscation; none for an empty kind or `none`.
pub(crate) fn obfs(
    kind: &str,
    password: &str,
    least: Option<u16>,
    greatest: Option<u16>,
) -> Result<Option<Obfs>, ParseError> {
    let kind = match trim(kind).to_ascii_lowercase() {
        kind if kind.is_empty() && !password.is_empty() => "salamander".to_owned(),
        kind => kind,
    };
    if kind.is_empty() || kind == "none" {
        return Ok(None);
    }
    if password.is_empty() && (kind == "salamander" || kind == "gecko") {
        let reason = format!("the obfuscation {} needs a password", shown(&kind));
        return Err(ParseError::new(ErrorKind::BadObfs, reason));
    }
    let gecko = kind == "gecko";
    Ok(Some(Obfs {
        password: Secret::new(password),
        min_packet_size: least.or(gecko.then_some(512)),
        max_packet_size: greatest.or(gecko.then_some(1200)),
        kind,
    }))
}

/// Mbit/s out of `100`, `100 mbps`, `100m`.
pub(crate) fn mbps(text: &str) -> Option<u32> {
    let text = trim(text);
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u32 = number.parse().ok()?;
    match trim(unit).to_ascii_lowercase().as_str() {
        "" | "m" | "mb" | "mbps" | "mbit/s" | "mbit" => Some(number),
        "g" | "gb" | "gbps" => number.checked_mul(1000),
        _ => None,
    }
}
