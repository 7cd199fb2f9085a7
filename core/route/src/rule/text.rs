//! The text form of a rule: `TYPE,VALUE,TARGET[,no-resolve]`, one a line, as the Clash family
//! writes it, so that people can read, paste and share rules.

use std::fmt;

use culvert_wire::Network;

use super::{BlockKind, Condition, Prefix, Rule, Target};
use crate::flow::{SniffedProtocol, normalise_name};

/// The deepest nesting of AND/OR/NOT.
const MAX_DEPTH: usize = 16;

/// Why a line is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleTextError {
    /// The line lacks its value or its target.
    #[error("a rule needs a type, a value and a target, separated by commas")]
    Incomplete,
    /// The type is unknown.
    #[error("unknown rule type {0}")]
    UnknownType(String),
    /// The value does not fit the type.
    #[error("{value} is not a valid value for {kind}")]
    BadValue {
        /// The rule type.
        kind: String,
        /// The value.
        value: String,
    },
    /// Conditions are nested too deeply or their parentheses do not match.
    #[error("the parentheses of {0} do not match or nest too deeply")]
    BadNesting(String),
}

impl Rule {
    /// Parses one line.
    pub fn parse(line: &str) -> Result<Self, RuleTextError> {
        let parts = split_top_level(line.trim()).ok_or_else(|| RuleTextError::BadNesting(line.trim().into()))?;
        let kind = parts.first().map(|part| part.trim().to_ascii_uppercase()).unwrap_or_default();
        if matches!(kind.as_str(), "MATCH" | "FINAL") {
            let target = parts.get(1).ok_or(RuleTextError::Incomplete)?;
            return Ok(Self::new(Condition::Any, Target::parse(target)));
        }
        // A regular expression may hold commas: its target is the last part.
        let (value, target, options) = if kind.ends_with("-REGEX") {
            let last = parts.len().checked_sub(1).filter(|last| *last >= 2).ok_or(RuleTextError::Incomplete)?;
            (parts[1..last].join(","), parts[last], &parts[last + 1..])
        } else {
            match parts.as_slice() {
                [_, value, target, options @ ..] => ((*value).to_owned(), *target, options),
                _ => return Err(RuleTextError::Incomplete),
            }
        };
        let resolve = !options.iter().any(|option| option.trim().eq_ignore_ascii_case("no-resolve"));
        Ok(Self::new(Condition::parse(&kind, value.trim(), resolve, 0)?, Target::parse(target)))
    }
}

impl Target {
    /// Parses a target word; anything unknown is the name of a node, group or chain.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        match text.to_ascii_uppercase().as_str() {
            "PROXY" => Self::Proxy,
            "DIRECT" => Self::Direct,
            "REJECT" | "BLOCK" => Self::Block(BlockKind::Reset),
            "REJECT-DROP" | "DROP" => Self::Block(BlockKind::Drop),
            _ => Self::Named(text.to_owned()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Proxy => "PROXY",
            Self::Direct => "DIRECT",
            Self::Block(BlockKind::Reset) => "REJECT",
            Self::Block(BlockKind::Drop) => "REJECT-DROP",
            Self::Named(name) => name,
        })
    }
}

impl Condition {
    fn parse(kind: &str, value: &str, resolve: bool, depth: usize) -> Result<Self, RuleTextError> {
        let bad = || RuleTextError::BadValue { kind: kind.to_owned(), value: value.to_owned() };
        if value.is_empty() {
            return Err(RuleTextError::Incomplete);
        }
        let name = || normalise_name(value).into_owned();
        let prefix = || Prefix::parse(value).ok_or_else(bad);
        let regex = || regex::Regex::new(value).map(|_| value.to_owned()).map_err(|_| bad());
        Ok(match kind {
            "DOMAIN" => Self::Domain(name()),
            "DOMAIN-SUFFIX" => Self::DomainSuffix(name().trim_start_matches('.').to_owned()),
            "DOMAIN-KEYWORD" => Self::DomainKeyword(value.to_ascii_lowercase()),
            "DOMAIN-REGEX" => Self::DomainRegex(regex()?),
            "DOMAIN-WILDCARD" => Self::DomainWildcard(name()),
            "GEOSITE" => {
                let mut parts = value.split('@').map(|part| part.trim().to_ascii_lowercase());
                let code = parts.next().filter(|code| !code.is_empty()).ok_or_else(bad)?;
                Self::Geosite { code, attributes: parts.collect() }
            }
            "IP-CIDR" | "IP-CIDR6" => Self::IpCidr { prefix: prefix()?, resolve },
            "GEOIP" => match value.to_ascii_lowercase().as_str() {
                "private" | "lan" => Self::PrivateAddress,
                code => Self::Geoip { code: code.to_owned(), resolve },
            },
            "RULE-SET" => Self::RuleSet { name: value.to_owned(), resolve },
            "SRC-IP-CIDR" => Self::SourceCidr(prefix()?),
            "DST-PORT" => Self::Port(port_range(value).ok_or_else(bad)?),
            "SRC-PORT" => Self::SourcePort(port_range(value).ok_or_else(bad)?),
            "NETWORK" => Self::Network(match value.to_ascii_lowercase().as_str() {
                "tcp" => Network::Tcp,
                "udp" => Network::Udp,
                _ => return Err(bad()),
            }),
            "IN-NAME" => Self::Inbound(value.to_owned()),
            "PROTOCOL" => Self::Protocol(match value.to_ascii_lowercase().as_str() {
                "tls" => SniffedProtocol::Tls,
                "http" => SniffedProtocol::Http,
                "quic" => SniffedProtocol::Quic,
                "bittorrent" => SniffedProtocol::BitTorrent,
                "stun" => SniffedProtocol::Stun,
                "dns" => SniffedProtocol::Dns,
                _ => return Err(bad()),
            }),
            "PROCESS-NAME" => Self::ProcessName(value.to_owned()),
            "PROCESS-PATH" => Self::ProcessPath(value.to_owned()),
            "PROCESS-PATH-REGEX" => Self::ProcessPathRegex(regex()?),
            "USER" => Self::User(value.to_owned()),
            "WIFI-SSID" => Self::WifiSsid(value.to_owned()),
            "TIME" => {
                let (from, to) = value.split_once('-').ok_or_else(bad)?;
                Self::TimeOfDay { from: minute(from).ok_or_else(bad)?, to: minute(to).ok_or_else(bad)? }
            }
            "AND" => Self::And(parse_nested(kind, value, depth)?),
            "OR" => Self::Or(parse_nested(kind, value, depth)?),
            "NOT" => {
                let mut inner = parse_nested(kind, value, depth)?;
                match (inner.pop(), inner.is_empty()) {
                    (Some(only), true) => Self::Not(Box::new(only)),
                    _ => return Err(bad()),
                }
            }
            _ => return Err(RuleTextError::UnknownType(kind.to_owned())),
        })
    }
}

/// `((TYPE,VALUE),(TYPE,VALUE[,no-resolve]))` or, for one condition, `(TYPE,VALUE)`.
fn parse_nested(kind: &str, value: &str, depth: usize) -> Result<Vec<Condition>, RuleTextError> {
    let bad = || RuleTextError::BadNesting(kind.to_owned());
    if depth >= MAX_DEPTH {
        return Err(bad());
    }
    let inner = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(bad)?;
    let items = if inner.trim_start().starts_with('(') { split_top_level(inner).ok_or_else(bad)? } else { vec![value] };
    items
        .into_iter()
        .map(|item| {
            let item = item.trim();
            let body = item.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(bad)?;
            let parts = split_top_level(body).ok_or_else(bad)?;
            let [inner_kind, rest @ ..] = parts.as_slice() else {
                return Err(RuleTextError::Incomplete);
            };
            let no_resolve = rest.last().is_some_and(|last| last.trim().eq_ignore_ascii_case("no-resolve"));
            let values = if no_resolve { &rest[..rest.len() - 1] } else { rest };
            Condition::parse(&inner_kind.trim().to_ascii_uppercase(), values.join(",").trim(), !no_resolve, depth + 1)
        })
        .collect()
}

/// Splits at commas outside parentheses; `None` when they do not match.
fn split_top_level(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (depth == 0).then_some(parts)
}

fn port_range(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
    (from <= to).then_some(from..=to)
}

fn minute(text: &str) -> Option<u16> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("MATCH"),
            Self::Domain(name) => write!(f, "DOMAIN,{name}"),
            Self::DomainSuffix(name) => write!(f, "DOMAIN-SUFFIX,{name}"),
            Self::DomainKeyword(word) => write!(f, "DOMAIN-KEYWORD,{word}"),
            Self::DomainRegex(regex) => write!(f, "DOMAIN-REGEX,{regex}"),
            Self::DomainWildcard(name) => write!(f, "DOMAIN-WILDCARD,{name}"),
            Self::Geosite { code, attributes } => {
                write!(f, "GEOSITE,{code}")?;
                attributes.iter().try_for_each(|attribute| write!(f, "@{attribute}"))
            }
            Self::IpCidr { prefix, .. } => write!(f, "IP-CIDR,{prefix}"),
            Self::Geoip { code, .. } => write!(f, "GEOIP,{code}"),
            Self::PrivateAddress => f.write_str("GEOIP,private"),
            Self::RuleSet { name, .. } => write!(f, "RULE-SET,{name}"),
            Self::SourceCidr(prefix) => write!(f, "SRC-IP-CIDR,{prefix}"),
            Self::Port(range) => write_range(f, "DST-PORT", range),
            Self::SourcePort(range) => write_range(f, "SRC-PORT", range),
            Self::Network(network) => write!(f, "NETWORK,{network}"),
            Self::Inbound(name) => write!(f, "IN-NAME,{name}"),
            Self::Protocol(protocol) => write!(
                f,
                "PROTOCOL,{}",
                match protocol {
                    SniffedProtocol::Tls => "tls",
                    SniffedProtocol::Http => "http",
                    SniffedProtocol::Quic => "quic",
                    SniffedProtocol::BitTorrent => "bittorrent",
                    SniffedProtocol::Stun => "stun",
                    SniffedProtocol::Dns => "dns",
                }
            ),
            Self::ProcessName(name) => write!(f, "PROCESS-NAME,{name}"),
            Self::ProcessPath(path) => write!(f, "PROCESS-PATH,{path}"),
            Self::ProcessPathRegex(regex) => write!(f, "PROCESS-PATH-REGEX,{regex}"),
            Self::User(user) => write!(f, "USER,{user}"),
            Self::WifiSsid(ssid) => write!(f, "WIFI-SSID,{ssid}"),
            Self::TimeOfDay { from, to } => {
                write!(f, "TIME,{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
            }
            Self::And(inner) => write_nested(f, "AND", inner),
            Self::Or(inner) => write_nested(f, "OR", inner),
            Self::Not(inner) => write_nested(f, "NOT", std::slice::from_ref(inner)),
        }
    }
}

impl Condition {
    /// Whether the condition as written keeps names from being resolved for it.
    fn no_resolve(&self) -> bool {
        matches!(
            self,
            Self::IpCidr { resolve: false, .. }
                | Self::Geoip { resolve: false, .. }
                | Self::RuleSet { resolve: false, .. }
        )
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.condition, self.target)?;
        if self.condition.no_resolve() { f.write_str(",no-resolve") } else { Ok(()) }
    }
}

fn write_range(f: &mut fmt::Formatter<'_>, kind: &str, range: &std::ops::RangeInclusive<u16>) -> fmt::Result {
    if range.start() == range.end() {
        write!(f, "{kind},{}", range.start())
    } else {
        write!(f, "{kind},{}-{}", range.start(), range.end())
    }
}

fn write_nested<C: std::borrow::Borrow<Condition>>(f: &mut fmt::Formatter<'_>, kind: &str, inner: &[C]) -> fmt::Result {
    write!(f, "{kind},(")?;
    for (index, condition) in inner.iter().enumerate() {
        let condition = condition.borrow();
        write!(
            f,
            "{}({condition}{})",
            if index > 0 { "," } else { "" },
            if condition.no_resolve() { ",no-resolve" } else { "" }
        )?;
    }
    f.write_str(")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_written() {
        for line in [
            "DOMAIN,example.com,DIRECT",
            "DOMAIN-SUFFIX,example.com,PROXY",
            "DOMAIN-KEYWORD,ads,REJECT",
            "DOMAIN-REGEX,^a{1,2}\\.example$,REJECT-DROP",
            "DOMAIN-WILDCARD,*.cdn.example,Hong Kong",
            "GEOSITE,google@ads,DIRECT",
            "GEOIP,cn,DIRECT,no-resolve",
            "IP-CIDR,192.0.2.0/24,DIRECT",
            "IP-CIDR,2001:db8::/32,DIRECT,no-resolve",
            "DST-PORT,443,PROXY",
            "DST-PORT,1000-2000,PROXY",
            "NETWORK,udp,REJECT",
            "TIME,22:00-06:30,DIRECT",
            "AND,((NETWORK,udp),(DST-PORT,443)),REJECT",
            "OR,((DOMAIN,a.example),(NOT,((GEOIP,cn,no-resolve)))),DIRECT",
            "MATCH,PROXY",
        ] {
            let rule = Rule::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(rule.to_string(), line);
        }
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        assert_eq!(Rule::parse("DOMAIN,example.com"), Err(RuleTextError::Incomplete));
        assert_eq!(Rule::parse(""), Err(RuleTextError::Incomplete));
        assert_eq!(Rule::parse("FOO,x,DIRECT"), Err(RuleTextError::UnknownType("FOO".into())));
        assert!(matches!(Rule::parse("IP-CIDR,300.1.1.1/8,DIRECT"), Err(RuleTextError::BadValue { .. })));
        assert!(matches!(Rule::parse("DST-PORT,70000,DIRECT"), Err(RuleTextError::BadValue { .. })));
        assert!(matches!(Rule::parse("DOMAIN-REGEX,(,DIRECT"), Err(RuleTextError::BadNesting(_))));
        assert!(matches!(Rule::parse("AND,((NETWORK,udp),DIRECT"), Err(RuleTextError::BadNesting(_))));
        assert!(Rule::parse("NOT,((NETWORK,udp)),DIRECT").is_ok());
        let too_deep = format!("{}NETWORK,udp{},DIRECT", "NOT,((".repeat(40), "))".repeat(40));
        assert!(Rule::parse(&too_deep).is_err());
    }
}
