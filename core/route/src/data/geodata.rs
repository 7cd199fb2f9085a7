//! `geosite.dat` and `geoip.dat`: protobuf lists of lists, as V2Ray and its family publish them.
//!
//! A file is indexed once (codes and the byte range of each list); a list is read when a rule asks
//! for it, so that an unused million of names costs nothing but the index.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::{DataError, NameEntry, PrefixList};
use crate::rule::Prefix;

/// Codes and places of the lists of one file. Holds no copy of the file: pass the same bytes to
/// every call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    lists: Vec<(String, Range<usize>)>,
}

impl Index {
    /// Indexes a file of either kind.
    pub fn build(file: &[u8]) -> Result<Self, DataError> {
        let mut lists = Vec::new();
        let mut reader = Reader::new(file, 0);
        while let Some(field) = reader.next_field()? {
            let (1, Value::Bytes(range)) = (field.number, field.value) else {
                continue;
            };
            let mut inner = Reader::new(file.get(range.clone()).unwrap_or_default(), range.start);
            let mut code = None;
            while let Some(field) = inner.next_field()? {
                if let (1, Value::Bytes(text)) = (field.number, field.value) {
                    code = file.get(text).and_then(|bytes| std::str::from_utf8(bytes).ok());
                    // The code comes first in every known file: the rest is read on demand.
                    break;
                }
            }
            match code {
                Some(code) => lists.push((code.to_ascii_lowercase(), range)),
                None => {
                    return Err(DataError::Damaged { at: range.start, what: "a list without a code" });
                }
            }
        }
        if lists.is_empty() {
            return Err(DataError::Damaged { at: 0, what: "no lists" });
        }
        lists.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self { lists })
    }

    /// The codes, sorted, in lower case.
    pub fn codes(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().map(|(code, _)| code.as_str())
    }

    fn find<'a>(&self, file: &'a [u8], code: &str) -> Option<Reader<'a>> {
        let place = self.lists.binary_search_by(|(known, _)| known.as_str().cmp(code)).ok()?;
        let range = self.lists.get(place)?.1.clone();
        Some(Reader::new(file.get(range.clone())?, range.start))
    }
}

/// Calls `entry` for each domain of the geosite list `code` that has all of `attributes` (compared
/// in lower case). `Ok(false)` when there is no such list.
pub fn geosite(
    file: &[u8],
    index: &Index,
    code: &str,
    attributes: &[String],
    entry: &mut dyn FnMut(NameEntry<'_>),
) -> Result<bool, DataError> {
    let Some(mut list) = index.find(file, code) else {
        return Ok(false);
    };
    while let Some(field) = list.next_field()? {
        if let (2, Value::Bytes(range)) = (field.number, field.value) {
            domain(file, range, attributes, entry)?;
        }
    }
    Ok(true)
}

fn domain(
    file: &[u8],
    range: Range<usize>,
    attributes: &[String],
    entry: &mut dyn FnMut(NameEntry<'_>),
) -> Result<(), DataError> {
    let at = range.start;
    let mut reader = Reader::new(file.get(range).unwrap_or_default(), at);
    // The enum's zero is left out on the wire: an entry without a type is a keyword.
    let mut kind = 0;
    let mut value = "";
    let mut met = 0usize;
    while let Some(field) = reader.next_field()? {
        match (field.number, field.value) {
            (1, Value::Number(number)) => kind = number,
            (2, Value::Bytes(text)) => {
                value = file
                    .get(text)
                    .and_then(|bytes| std::str::from_utf8(bytes).ok())
                    .ok_or(DataError::Damaged { at, what: "a name that is not UTF-8" })?;
            }
            (3, Value::Bytes(attribute)) if !attributes.is_empty() => {
                let start = attribute.start;
                let mut inner = Reader::new(file.get(attribute).unwrap_or_default(), start);
                while let Some(field) = inner.next_field()? {
                    if let (1, Value::Bytes(key)) = (field.number, field.value) {
                        let key = file.get(key).unwrap_or_default();
                        met += attributes.iter().filter(|wanted| key.eq_ignore_ascii_case(wanted.as_bytes())).count();
                    }
                }
            }
            _ => {}
        }
    }
    if met < attributes.len() || value.is_empty() {
        return Ok(());
    }
    let lower;
    let name = if kind != 1 && value.bytes().any(|byte| byte.is_ascii_uppercase()) {
        lower = value.to_ascii_lowercase();
        lower.as_str()
    } else {
        value
    };
    match kind {
        0 => entry(NameEntry::Keyword(name)),
        1 => entry(NameEntry::Regex(name)),
        2 => entry(NameEntry::Suffix(name)),
        3 => entry(NameEntry::Full(name)),
        _ => {
            return Err(DataError::Damaged { at, what: "an unknown kind of name" });
        }
    }
    Ok(())
}

/// The geoip list `code`. `Ok(None)` when there is no such list.
pub fn geoip(file: &[u8], index: &Index, code: &str) -> Result<Option<PrefixList>, DataError> {
    let Some(mut list) = index.find(file, code) else {
        return Ok(None);
    };
    let mut found = PrefixList::default();
    while let Some(field) = list.next_field()? {
        match (field.number, field.value) {
            (2, Value::Bytes(range)) => {
                let at = range.start;
                let mut reader = Reader::new(file.get(range).unwrap_or_default(), at);
                let (mut address, mut length) = (&[][..], 0u64);
                while let Some(field) = reader.next_field()? {
                    match (field.number, field.value) {
                        (1, Value::Bytes(bytes)) => address = file.get(bytes).unwrap_or_default(),
                        (2, Value::Number(number)) => length = number,
                        _ => {}
                    }
                }
                let address = match <[u8; 4]>::try_from(address) {
                    Ok(v4) => IpAddr::V4(Ipv4Addr::from(v4)),
                    Err(_) => match <[u8; 16]>::try_from(address) {
                        Ok(v6) => IpAddr::V6(Ipv6Addr::from(v6)),
                        Err(_) => {
                            return Err(DataError::Damaged { at, what: "an address of a wrong length" });
                        }
                    },
                };
                let prefix = u8::try_from(length).ok().and_then(|length| Prefix::new(address, length));
                found.prefixes.push(prefix.ok_or(DataError::Damaged { at, what: "a prefix that is too long" })?);
            }
            (3, Value::Number(number)) => found.inverted = number != 0,
            _ => {}
        }
    }
    Ok(Some(found))
}

enum Value {
    Number(u64),
    /// Absolute range in the file.
    Bytes(Range<usize>),
    /// A fixed-width value, which these files do not use.
    Skipped,
}

struct Field {
    number: u64,
    value: Value,
}

/// A protobuf reader over `bytes`, which lie at `base` in the file.
struct Reader<'a> {
    bytes: &'a [u8],
    base: usize,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], base: usize) -> Self {
        Self { bytes, base, at: 0 }
    }

    fn damaged(&self, what: &'static str) -> DataError {
        DataError::Damaged { at: self.base + self.at, what }
    }

    fn varint(&mut self) -> Result<u64, DataError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or_else(|| self.damaged("it ends inside a number"))?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.damaged("a number that is too long"))
    }

    fn advance(&mut self, amount: u64) -> Result<Range<usize>, DataError> {
        let end = usize::try_from(amount)
            .ok()
            .and_then(|amount| self.at.checked_add(amount))
            .filter(|end| *end <= self.bytes.len())
            .ok_or_else(|| self.damaged("an entry that is longer than the file"))?;
        let range = self.base + self.at..self.base + end;
        self.at = end;
        Ok(range)
    }

    fn next_field(&mut self) -> Result<Option<Field>, DataError> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.advance(8).map(|_| Value::Skipped)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.advance(length)?)
            }
            5 => self.advance(4).map(|_| Value::Skipped)?,
            _ => return Err(self.damaged("an unknown kind of field")),
        };
        Ok(Some(Field { number: tag >> 3, value }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(bytes);
        out
    }

    pub(crate) fn site(kind: u8, name: &str, attributes: &[&str]) -> Vec<u8> {
        let mut inner = if kind == 0 { vec![] } else { vec![8, kind] };
        inner.extend(field(2, name.as_bytes()));
        for attribute in attributes {
            let mut body = field(1, attribute.as_bytes());
            body.extend([16, 1]);
            inner.extend(field(3, &body));
        }
        field(2, &inner)
    }

    pub(crate) fn list(code: &str, entries: &[Vec<u8>]) -> Vec<u8> {
        let mut inner = field(1, code.as_bytes());
        inner.extend(entries.concat());
        field(1, &inner)
    }

    fn cidr(address: &[u8], length: u8) -> Vec<u8> {
        let mut inner = field(1, address);
        inner.extend([16, length]);
        field(2, &inner)
    }

    fn names(file: &[u8], code: &str, attributes: &[&str]) -> Option<Vec<String>> {
        let index = Index::build(file).unwrap();
        let mut found = Vec::new();
        let wanted: Vec<String> = attributes.iter().map(|text| (*text).to_owned()).collect();
        geosite(file, &index, code, &wanted, &mut |entry| found.push(format!("{entry:?}"))).unwrap().then_some(found)
    }

    #[test]
    fn types_attributes_and_case() {
        let file = [
            list("ZZ", &[site(3, "z.example", &[])]),
            list(
                "GOOGLE",
                &[
                    site(0, "word", &[]),
                    site(1, "^A\\.", &["ads"]),
                    site(2, "Example.COM", &["ads", "cn"]),
                    site(3, "full.example", &["!cn"]),
                ],
            ),
        ]
        .concat();
        assert_eq!(
            names(&file, "google", &[]).unwrap(),
            ["Keyword(\"word\")", "Regex(\"^A\\\\.\")", "Suffix(\"example.com\")", "Full(\"full.example\")"]
        );
        assert_eq!(names(&file, "google", &["ads", "cn"]).unwrap(), ["Suffix(\"example.com\")"]);
        assert_eq!(names(&file, "google", &["!cn"]).unwrap(), ["Full(\"full.example\")"]);
        assert_eq!(names(&file, "google", &["none"]).unwrap().len(), 0);
        assert_eq!(names(&file, "absent", &[]), None);
    }

    #[test]
    fn addresses_and_inversion() {
        let mut body = field(1, b"CN");
        body.extend(cidr(&[10, 1, 2, 3], 8));
        body.extend(cidr(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 32));
        body.extend([24, 1]);
        let file = field(1, &body);
        let index = Index::build(&file).unwrap();
        let found = geoip(&file, &index, "cn").unwrap().unwrap();
        assert_eq!(found.prefixes, [Prefix::parse("10.0.0.0/8").unwrap(), Prefix::parse("2001:db8::/32").unwrap()]);
        assert!(found.inverted);
    }

    #[test]
    fn damage_is_an_error_at_every_byte_and_never_a_panic() {
        let file = list("AA", &[site(2, "example.com", &["ads"]), site(0, "word", &[])]);
        for end in 0..file.len() {
            let cut = &file[..end];
            assert!(Index::build(cut).is_err(), "cut at {end}");
        }
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << bit;
                if let Ok(index) = Index::build(&flipped) {
                    for code in index.codes() {
                        let _ = geosite(&flipped, &index, code, &[], &mut |_| {});
                        let _ = geoip(&flipped, &index, code);
                    }
                }
            }
        }
    }
}
