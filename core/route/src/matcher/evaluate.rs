//! One decision.

use std::net::IpAddr;

use super::compile::{Compiled, Test};
use super::name_index::Atom;
use super::{Decision, Outcome};
use crate::flow::{Facts, unmap};
use crate::rule::{Condition, Prefix};

/// Truth with a third value: the address decides, and is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    Yes,
    No,
    NeedsAddress,
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Self::Yes } else { Self::No }
    }
}

/// The atoms that are true, as bits. 512 of them need no allocation.
struct Atoms {
    inline: [u64; 8],
    more: Vec<u64>,
}

impl Atoms {
    fn new(count: usize) -> Self {
        let words = count.div_ceil(64);
        Self { inline: [0; 8], more: if words > 8 { vec![0; words] } else { Vec::new() } }
    }

    fn words(&self) -> &[u64] {
        if self.more.is_empty() { &self.inline } else { &self.more }
    }

    fn set(&mut self, atom: Atom) {
        let words = if self.more.is_empty() { &mut self.inline[..] } else { &mut self.more[..] };
        if let Some(word) = words.get_mut(usize::from(atom) / 64) {
            *word |= 1 << (atom % 64);
        }
    }

    fn has(&self, atom: Atom) -> bool {
        self.words().get(usize::from(atom) / 64).is_some_and(|word| word & (1 << (atom % 64)) != 0)
    }
}

impl Compiled {
    pub(super) fn decide(&self, facts: &Facts<'_>, may_resolve: bool) -> Outcome {
        let mut atoms = Atoms::new(self.atoms);
        if let Some(name) = facts.name {
            self.names.look_up(name, |atom| atoms.set(atom));
            if let Some((automaton, owners)) = &self.keywords {
                for found in automaton.find_overlapping_iter(name) {
                    if let Some(atom) = owners.get(found.pattern().as_usize()) {
                        atoms.set(*atom);
                    }
                }
            }
            if let Some((set, owners)) = &self.regexes {
                for pattern in set.matches(name) {
                    if let Some(atom) = owners.get(pattern) {
                        atoms.set(*atom);
                    }
                }
            }
        }
        let address = facts.address.map(unmap);
        if let Some(address) = address {
            for atom in self.addresses.look_up(address) {
                atoms.set(*atom);
            }
        }
        let scene =
            Scene { facts, address, atoms, unresolved: may_resolve && address.is_none() && facts.name.is_some() };
        for (rule, compiled) in self.rules.iter().enumerate() {
            match scene.test(&compiled.test) {
                Truth::Yes => {
                    return Outcome::Decided(Decision { rule, target: compiled.target.clone() });
                }
                Truth::NeedsAddress => return Outcome::NeedsAddress { rule },
                Truth::No => {}
            }
        }
        Outcome::NoRule
    }
}

struct Scene<'a> {
    facts: &'a Facts<'a>,
    address: Option<IpAddr>,
    atoms: Atoms,
    /// Whether resolving the name could still give an address.
    unresolved: bool,
}

impl Scene<'_> {
    fn test(&self, test: &Test) -> Truth {
        match test {
            Test::Any => Truth::Yes,
            Test::Never => Truth::No,
            Test::Name(atom) => self.atoms.has(*atom).into(),
            Test::Address { resolve: true, .. } if self.unresolved => Truth::NeedsAddress,
            Test::Address { atom, .. } => self.atoms.has(*atom).into(),
            Test::Plain(condition) => plain(condition, self.facts, self.address).into(),
            Test::Wildcard(pattern) => self.facts.name.is_some_and(|name| wildcard(pattern, name)).into(),
            Test::ProcessPathRegex(regex) => self.facts.process_path.is_some_and(|path| regex.is_match(path)).into(),
            Test::All(inner) => {
                let mut result = Truth::Yes;
                for one in inner {
                    match self.test(one) {
                        Truth::Yes => {}
                        Truth::No => return Truth::No,
                        Truth::NeedsAddress => result = Truth::NeedsAddress,
                    }
                }
                result
            }
            Test::AnyOf(inner) => {
                let mut result = Truth::No;
                for one in inner {
                    match self.test(one) {
                        Truth::Yes => return Truth::Yes,
                        Truth::No => {}
                        Truth::NeedsAddress => result = Truth::NeedsAddress,
                    }
                }
                result
            }
            Test::Not(inner) => match self.test(inner) {
                Truth::Yes => Truth::No,
                Truth::No => Truth::Yes,
                Truth::NeedsAddress => Truth::NeedsAddress,
            },
        }
    }
}

/// A condition that needs no list. Conditions over lists are atoms and never come here: they are
/// false, so that a mistake can't widen a rule.
pub(super) fn plain(condition: &Condition, facts: &Facts<'_>, address: Option<IpAddr>) -> bool {
    match condition {
        Condition::PrivateAddress => address.is_some_and(is_private),
        Condition::SourceCidr(prefix) => facts.source.is_some_and(|source| prefix.contains(unmap(source.ip()))),
        Condition::Port(range) => range.contains(&facts.port),
        Condition::SourcePort(range) => facts.source.is_some_and(|source| range.contains(&source.port())),
        Condition::Network(network) => facts.network == *network,
        Condition::Inbound(name) => facts.inbound == name,
        Condition::Protocol(protocol) => facts.protocol == Some(*protocol),
        Condition::ProcessName(name) => facts.process_name().is_some_and(|found| {
            found == name || (name.to_ascii_lowercase().ends_with(".exe") && found.eq_ignore_ascii_case(name))
        }),
        Condition::ProcessPath(path) => facts.process_path == Some(path),
        Condition::User(user) => facts.user == Some(user),
        Condition::WifiSsid(ssid) => facts.wifi_ssid == Some(ssid),
        Condition::TimeOfDay { from, to } => facts
            .minute_of_day
            .is_some_and(|now| if from <= to { (*from..*to).contains(&now) } else { now >= *from || now < *to }),
        Condition::Any
        | Condition::Domain(_)
        | Condition::DomainSuffix(_)
        | Condition::DomainKeyword(_)
        | Condition::DomainRegex(_)
        | Condition::DomainWildcard(_)
        | Condition::Geosite { .. }
        | Condition::IpCidr { .. }
        | Condition::Geoip { .. }
        | Condition::RuleSet { .. }
        | Condition::ProcessPathRegex(_)
        | Condition::And(_)
        | Condition::Or(_)
        | Condition::Not(_) => false,
    }
}

/// Whether `name` has as many labels as `pattern` and each is equal, or `*` in the pattern.
pub(super) fn wildcard(pattern: &[String], name: &str) -> bool {
    let mut labels = name.split('.');
    pattern.iter().all(|part| labels.next().is_some_and(|label| part == "*" || part == label))
        && labels.next().is_none()
}

/// RFC 6890 and friends: addresses that no proxy can reach on a person's behalf.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || a == 0
                || (a == 100 && (64..128).contains(&b))
                || Prefix::parse("198.18.0.0/15").is_some_and(|benchmark| benchmark.contains(address))
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
        }
    }
}
