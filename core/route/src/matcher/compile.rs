//! From rules and lists to the compiled form.

use aho_corasick::AhoCorasick;
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::Warning;
use super::address_index::{AddressIndex, AddressIndexBuilder};
use super::name_index::{Atom, NameIndex, NameIndexBuilder};
use crate::data::{NameEntry, RuleData, RuleSetEntries};
use crate::rule::{Condition, Rule, Target};

/// The most memory that one compiled regular expression, or the set of a list, may take.
const REGEX_SIZE_LIMIT: usize = 4 << 20;

/// A condition with its lists replaced by atoms.
pub(super) enum Test {
    Any,
    Never,
    /// True when the atom is.
    Name(Atom),
    /// True when the atom is; asks for the address when it is unknown and `resolve` is set.
    Address {
        atom: Atom,
        resolve: bool,
    },
    /// A facts-only condition, evaluated as it stands.
    Plain(Condition),
    Wildcard(Vec<String>),
    ProcessPathRegex(Regex),
    All(Vec<Test>),
    AnyOf(Vec<Test>),
    Not(Box<Test>),
}

pub(super) struct CompiledRule {
    pub(super) test: Test,
    pub(super) target: Target,
}

pub(super) struct Compiled {
    pub(super) rules: Vec<CompiledRule>,
    pub(super) names: NameIndex,
    pub(super) addresses: AddressIndex,
    /// Words, and the atom of each.
    pub(super) keywords: Option<(AhoCorasick, Vec<Atom>)>,
    /// Expressions, and the atom of each.
    pub(super) regexes: Option<(RegexSet, Vec<Atom>)>,
    /// How many atoms there are.
    pub(super) atoms: usize,
}

pub(super) fn compile(rules: &[Rule], data: &dyn RuleData, seed: u64) -> (Compiled, Vec<Warning>) {
    let mut compiler = Compiler {
        data,
        names: NameIndexBuilder::new(seed),
        addresses: AddressIndexBuilder::default(),
        keywords: Vec::new(),
        regexes: Vec::new(),
        atoms: 0,
        known: Vec::new(),
        rule: 0,
        warnings: Vec::new(),
    };
    let compiled = rules
        .iter()
        .enumerate()
        .map(|(place, rule)| {
            compiler.rule = place;
            let test = if rule.enabled { compiler.condition(&rule.condition) } else { Test::Never };
            CompiledRule { test, target: rule.target.clone() }
        })
        .collect();
    compiler.finish(compiled)
}

struct Compiler<'a> {
    data: &'a dyn RuleData,
    names: NameIndexBuilder,
    addresses: AddressIndexBuilder,
    keywords: Vec<(String, Atom)>,
    regexes: Vec<(String, Atom, usize)>,
    atoms: usize,
    /// List conditions that have their atoms already: (condition's text, name atom, address atom).
    known: Vec<(String, Option<Atom>, Option<Atom>)>,
    rule: usize,
    warnings: Vec<Warning>,
}

impl Compiler<'_> {
    fn atom(&mut self) -> Option<Atom> {
        let atom = Atom::try_from(self.atoms).ok();
        match atom {
            Some(_) => self.atoms += 1,
            None => self.warn("there are too many rules".to_owned()),
        }
        atom
    }

    fn warn(&mut self, reason: String) {
        self.warnings.push(Warning { rule: self.rule, reason });
    }

    fn condition(&mut self, condition: &Condition) -> Test {
        match condition {
            Condition::Any => Test::Any,
            Condition::Domain(name) => self.named(|c, atom| c.names.add_full(name, atom)),
            Condition::DomainSuffix(name) => self.named(|c, atom| c.names.add_suffix(name, atom)),
            Condition::DomainKeyword(word) => self.named(|c, atom| c.keywords.push((word.clone(), atom))),
            Condition::DomainRegex(regex) => self.named(|c, atom| c.regexes.push((regex.clone(), atom, c.rule))),
            Condition::DomainWildcard(pattern) => Test::Wildcard(pattern.split('.').map(str::to_owned).collect()),
            Condition::Geosite { code, attributes } => self.geosite(condition, code, attributes),
            Condition::IpCidr { prefix, resolve } => match self.atom() {
                Some(atom) => {
                    self.addresses.add_prefix(*prefix, atom);
                    Test::Address { atom, resolve: *resolve }
                }
                None => Test::Never,
            },
            Condition::Geoip { code, resolve } => self.geoip(code, *resolve),
            Condition::RuleSet { name, resolve } => self.rule_set(name, *resolve),
            Condition::ProcessPathRegex(pattern) => {
                match RegexBuilder::new(pattern).size_limit(REGEX_SIZE_LIMIT).build() {
                    Ok(regex) => Test::ProcessPathRegex(regex),
                    Err(_) => {
                        self.warn(format!("the regular expression {pattern} can't be used"));
                        Test::Never
                    }
                }
            }
            Condition::And(inner) => Test::All(inner.iter().map(|one| self.condition(one)).collect()),
            Condition::Or(inner) => Test::AnyOf(inner.iter().map(|one| self.condition(one)).collect()),
            Condition::Not(inner) => {
                let test = self.condition(inner);
                // A missing list must not turn into "everything".
                if matches!(test, Test::Never) { Test::Never } else { Test::Not(Box::new(test)) }
            }
            Condition::PrivateAddress
            | Condition::SourceCidr(_)
            | Condition::Port(_)
            | Condition::SourcePort(_)
            | Condition::Network(_)
            | Condition::Inbound(_)
            | Condition::Protocol(_)
            | Condition::ProcessName(_)
            | Condition::ProcessPath(_)
            | Condition::User(_)
            | Condition::WifiSsid(_)
            | Condition::TimeOfDay { .. } => Test::Plain(condition.clone()),
        }
    }

    fn named(&mut self, add: impl FnOnce(&mut Self, Atom)) -> Test {
        match self.atom() {
            Some(atom) => {
                add(self, atom);
                Test::Name(atom)
            }
            None => Test::Never,
        }
    }

    fn geosite(&mut self, condition: &Condition, code: &str, attributes: &[String]) -> Test {
        let key = condition.to_string();
        if let Some((_, Some(atom), _)) = self.known.iter().find(|(known, _, _)| *known == key) {
            return Test::Name(*atom);
        }
        let Some(atom) = self.atom() else {
            return Test::Never;
        };
        let mut found = 0usize;
        let data = self.data;
        let known_list = data.geosite(code, attributes, &mut |entry| {
            found += 1;
            self.add_name(entry, atom);
        });
        if !known_list || found == 0 {
            self.warn(match (known_list, attributes.is_empty()) {
                (false, _) => format!("the list geosite:{code} is not in the rule data"),
                (true, true) => format!("the list geosite:{code} is empty"),
                (true, false) => format!("no entry of geosite:{code} has the attribute {}", attributes.join("@")),
            });
            return Test::Never;
        }
        self.known.push((key, Some(atom), None));
        Test::Name(atom)
    }

    fn add_name(&mut self, entry: NameEntry<'_>, atom: Atom) {
        match entry {
            NameEntry::Full(name) => self.names.add_full(name, atom),
            NameEntry::Suffix(name) => self.names.add_suffix(name, atom),
            NameEntry::Keyword(word) => self.keywords.push((word.to_owned(), atom)),
            NameEntry::Regex(regex) => self.regexes.push((regex.to_owned(), atom, self.rule)),
        }
    }

    fn geoip(&mut self, code: &str, resolve: bool) -> Test {
        let key = format!("GEOIP,{code}");
        if let Some((_, _, Some(atom))) = self.known.iter().find(|(known, _, _)| *known == key) {
            return Test::Address { atom: *atom, resolve };
        }
        let Some(list) = self.data.geoip(code) else {
            self.warn(format!("the list geoip:{code} is not in the rule data"));
            return Test::Never;
        };
        let Some(atom) = self.atom() else {
            return Test::Never;
        };
        if list.inverted {
            self.addresses.add_complement(&list.prefixes, atom);
        } else {
            for prefix in &list.prefixes {
                self.addresses.add_prefix(*prefix, atom);
            }
        }
        self.known.push((key, None, Some(atom)));
        Test::Address { atom, resolve }
    }

    fn rule_set(&mut self, name: &str, resolve: bool) -> Test {
        let Some(set) = self.data.rule_set(name) else {
            self.warn(format!("the rule set {name} is missing"));
            return Test::Never;
        };
        match set {
            RuleSetEntries::Names(names) => self.named(|c, atom| {
                for entry in names {
                    c.add_name(entry.borrowed(), atom);
                }
            }),
            RuleSetEntries::Addresses(prefixes) => match self.atom() {
                Some(atom) => {
                    for prefix in prefixes {
                        self.addresses.add_prefix(*prefix, atom);
                    }
                    Test::Address { atom, resolve }
                }
                None => Test::Never,
            },
            RuleSetEntries::Conditions(conditions) => {
                Test::AnyOf(conditions.iter().map(|condition| self.condition(condition)).collect())
            }
        }
    }

    fn finish(mut self, rules: Vec<CompiledRule>) -> (Compiled, Vec<Warning>) {
        let keywords = (!self.keywords.is_empty())
            .then(|| {
                let built = AhoCorasick::new(self.keywords.iter().map(|(word, _)| word));
                built.ok().map(|automaton| (automaton, self.keywords.iter().map(|(_, atom)| *atom).collect()))
            })
            .flatten();
        // One bad expression must not take the others with it.
        let mut usable = Vec::new();
        for (pattern, atom, rule) in std::mem::take(&mut self.regexes) {
            if RegexBuilder::new(&pattern).size_limit(REGEX_SIZE_LIMIT).build().is_ok() {
                usable.push((pattern, atom));
            } else {
                self.warnings.push(Warning { rule, reason: format!("the regular expression {pattern} can't be used") });
            }
        }
        let regexes = (!usable.is_empty())
            .then(|| {
                RegexSetBuilder::new(usable.iter().map(|(pattern, _)| pattern))
                    .size_limit(REGEX_SIZE_LIMIT * 16)
                    .build()
                    .ok()
                    .map(|set| (set, usable.iter().map(|(_, atom)| *atom).collect()))
            })
            .flatten();
        let compiled = Compiled {
            rules,
            names: self.names.build(),
            addresses: self.addresses.build(),
            keywords,
            regexes,
            atoms: self.atoms,
        };
        (compiled, self.warnings)
    }
}
