//! A rule: a condition and where flows that meet it go.

mod text;

use std::net::IpAddr;
use std::ops::RangeInclusive;

use culvert_wire::Network;

use crate::flow::SniffedProtocol;

pub use text::RuleTextError;

/// How a blocked flow ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// The application sees a refusal at once.
    Reset,
    /// The application sees nothing.
    Drop,
}

/// Where a flow goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// Through the node or group that is in use.
    Proxy,
    /// Past every node.
    Direct,
    /// Nowhere.
    Block(BlockKind),
    /// Through the node, group or chain of this name.
    Named(String),
}

/// A network prefix. The host bits of `address` are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// A prefix of `length` bits; host bits are cleared. `None` when the length is too large.
    /// IPv4-mapped prefixes of 96 bits or more become IPv4 prefixes.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        match address {
            IpAddr::V4(v4) if length <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Some(Self { address: IpAddr::V4((u32::from(v4) & mask).into()), length })
            }
            IpAddr::V6(v6) if length <= 128 => {
                if let (Some(v4), Some(short)) = (v6.to_ipv4_mapped(), length.checked_sub(96)) {
                    return Self::new(IpAddr::V4(v4), short);
                }
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Some(Self { address: IpAddr::V6((u128::from(v6) & mask).into()), length })
            }
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        }
    }

    /// Parses `address/length`, or a lone address as a prefix of its full length.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            Some((address, length)) => Self::new(address.trim().parse().ok()?, length.trim().parse().ok()?),
            None => {
                let address: IpAddr = text.trim().parse().ok()?;
                Self::new(address, if address.is_ipv4() { 32 } else { 128 })
            }
        }
    }

    /// The network address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The length in bits.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether `address` lies inside. Families are never mixed.
    pub fn contains(&self, address: IpAddr) -> bool {
        Self::new(address, self.length).is_some_and(|other| other.address == self.address)
            && address.is_ipv4() == self.address.is_ipv4()
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// What a rule asks of a flow.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// Always true: the last rule of a list.
    Any,
    /// The name is exactly this.
    Domain(String),
    /// The name is this or lies below it.
    DomainSuffix(String),
    /// The name contains this.
    DomainKeyword(String),
    /// The name matches this regular expression (unanchored).
    DomainRegex(String),
    /// The name matches label by label; `*` is exactly one label.
    DomainWildcard(String),
    /// The name is in this geosite list and has all of these attributes.
    Geosite {
        /// List code, such as `cn`.
        code: String,
        /// Attributes that an entry must have.
        attributes: Vec<String>,
    },
    /// The address lies in this prefix. With `resolve`, a flow that has only a name is resolved
    /// first; without, it does not match.
    IpCidr {
        /// The prefix.
        prefix: Prefix,
        /// Whether a name is resolved for this.
        resolve: bool,
    },
    /// The address belongs to this country or list of the geoip data.
    Geoip {
        /// List code, such as `cn`.
        code: String,
        /// Whether a name is resolved for this.
        resolve: bool,
    },
    /// The address is private, loopback, link-local, shared (100.64/10), multicast or unspecified.
    PrivateAddress,
    /// The name or address is in this rule set.
    RuleSet {
        /// The set's name.
        name: String,
        /// Whether a name is resolved for the set's address entries.
        resolve: bool,
    },
    /// The source address lies in this prefix.
    SourceCidr(Prefix),
    /// The destination port lies in this range.
    Port(RangeInclusive<u16>),
    /// The source port lies in this range.
    SourcePort(RangeInclusive<u16>),
    /// TCP or UDP.
    Network(Network),
    /// The inbound has this name.
    Inbound(String),
    /// The first bytes show this protocol.
    Protocol(SniffedProtocol),
    /// The program's file has this name (no case on names that end in `.exe`).
    ProcessName(String),
    /// The program's file is exactly this.
    ProcessPath(String),
    /// The program's path matches this regular expression.
    ProcessPathRegex(String),
    /// The program runs as this user.
    User(String),
    /// The Wi-Fi network has this name.
    WifiSsid(String),
    /// Local time of day, in minutes since midnight, from inclusive to exclusive; may wrap.
    TimeOfDay {
        /// First minute.
        from: u16,
        /// First minute that is outside again.
        to: u16,
    },
    /// All are true.
    And(Vec<Condition>),
    /// At least one is true.
    Or(Vec<Condition>),
    /// It is false. Unknown facts count as not meeting the inner condition.
    Not(Box<Condition>),
}

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What it asks.
    pub condition: Condition,
    /// Where flows that meet it go.
    pub target: Target,
    /// A rule that is switched off keeps its place and never matches.
    pub enabled: bool,
}

impl Rule {
    /// An enabled rule.
    pub fn new(condition: Condition, target: Target) -> Self {
        Self { condition, target, enabled: true }
    }
}
