//! Decisions, and their equality with a naive reference.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::data::{NameEntry, NoData, OwnedNameEntry, PrefixList, RuleSetEntries};
use crate::rule::{BlockKind, Condition, Prefix};

fn matcher(lines: &[&str]) -> Matcher {
    let rules: Vec<Rule> = lines.iter().map(|line| Rule::parse(line).unwrap()).collect();
    let (matcher, warnings) = Matcher::compile(&rules, &NoData, 7);
    assert_eq!(warnings, []);
    matcher
}

fn target(outcome: Outcome) -> String {
    match outcome {
        Outcome::Decided(decision) => decision.target.to_string(),
        Outcome::NeedsAddress { rule } => format!("resolve for {rule}"),
        Outcome::NoRule => "none".into(),
    }
}

#[test]
fn names_match_on_label_borders() {
    let matcher =
        matcher(&["DOMAIN,www.example.com,A", "DOMAIN-SUFFIX,example.com,B", "DOMAIN-KEYWORD,xamp,C", "MATCH,D"]);
    let at = |name: &str| target(matcher.decide(&Facts::of_name(name, 443)));
    assert_eq!(at("www.example.com"), "A");
    assert_eq!(at("example.com"), "B");
    assert_eq!(at("a.b.example.com"), "B");
    assert_eq!(at("notexample.com"), "C");
    assert_eq!(at("com"), "D");
}

#[test]
fn a_rule_about_addresses_asks_for_one_and_only_in_its_turn() {
    let matcher =
        matcher(&["DOMAIN,a.example,A", "IP-CIDR,192.0.2.0/24,B", "IP-CIDR,198.51.100.0/24,C,no-resolve", "MATCH,D"]);
    assert_eq!(target(matcher.decide(&Facts::of_name("a.example", 443))), "A");
    let mut facts = Facts::of_name("b.example", 443);
    assert_eq!(matcher.decide(&facts), Outcome::NeedsAddress { rule: 1 });
    assert_eq!(target(matcher.decide_after_resolve(&facts)), "D");
    facts.address = Some("192.0.2.7".parse().unwrap());
    assert_eq!(target(matcher.decide(&facts)), "B");
    facts.address = Some("::ffff:198.51.100.1".parse().unwrap());
    assert_eq!(target(matcher.decide(&facts)), "C");
}

#[test]
fn conditions_that_need_no_address_are_decided_first_inside_and_or() {
    let matcher = matcher(&[
        "AND,((IP-CIDR,192.0.2.0/24),(DST-PORT,80)),A",
        "OR,((IP-CIDR,192.0.2.0/24),(DST-PORT,443)),B",
        "MATCH,C",
    ]);
    assert_eq!(target(matcher.decide(&Facts::of_name("x.example", 443))), "B");
    assert_eq!(matcher.decide(&Facts::of_name("x.example", 80)), Outcome::NeedsAddress { rule: 0 });
}

#[test]
fn a_missing_list_is_a_warning_and_never_matches_not_even_negated() {
    let rules: Vec<Rule> =
        ["GEOSITE,cn,A", "NOT,((GEOIP,cn)),B", "RULE-SET,x,C", "DOMAIN-REGEX,(a{1000}){1000},E", "MATCH,D"]
            .iter()
            .map(|line| {
                Rule::parse(line).unwrap_or_else(|_| {
                    Rule::new(Condition::DomainRegex("(a{1000}){1000}".into()), Target::Named("E".into()))
                })
            })
            .collect();
    let (matcher, warnings) = Matcher::compile(&rules, &NoData, 1);
    assert_eq!(warnings.iter().map(|warning| warning.rule).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(target(matcher.decide(&Facts::of_address("192.0.2.1".parse().unwrap(), 1))), "D");
}

#[test]
fn switched_off_rules_and_time_and_process() {
    let mut rules = vec![
        Rule::parse("MATCH,OFF").unwrap(),
        Rule::parse("TIME,22:00-06:00,NIGHT").unwrap(),
        Rule::parse("PROCESS-NAME,Game.exe,GAME").unwrap(),
        Rule::parse("PROCESS-PATH-REGEX,/opt/[a-z]+/bin,OPT").unwrap(),
        Rule::parse("GEOIP,private,LOCAL").unwrap(),
    ];
    rules[0].enabled = false;
    let (matcher, _) = Matcher::compile(&rules, &NoData, 1);
    let mut facts = Facts::of_address("192.0.2.1".parse().unwrap(), 1);
    assert_eq!(matcher.decide(&facts), Outcome::NoRule);
    facts.minute_of_day = Some(23 * 60);
    assert_eq!(target(matcher.decide(&facts)), "NIGHT");
    facts.minute_of_day = Some(6 * 60);
    facts.process_path = Some("C:\\Games\\game.EXE");
    assert_eq!(target(matcher.decide(&facts)), "GAME");
    facts.process_path = Some("/opt/thing/bin/x");
    assert_eq!(target(matcher.decide(&facts)), "OPT");
    facts.process_path = None;
    facts.address = Some("fe80::1".parse().unwrap());
    assert_eq!(target(matcher.decide(&facts)), "LOCAL");
    assert_eq!(Target::parse("reject-drop"), Target::Block(BlockKind::Drop));
}

/// Lists held plainly.
struct Lists {
    site: Vec<OwnedNameEntry>,
    addresses: PrefixList,
    set: RuleSetEntries,
}

impl RuleData for Lists {
    fn geosite(&self, code: &str, _: &[String], entry: &mut dyn FnMut(NameEntry<'_>)) -> bool {
        self.site.iter().for_each(|one| entry(one.borrowed()));
        code == "list"
    }

    fn geoip(&self, code: &str) -> Option<PrefixList> {
        (code == "list").then(|| self.addresses.clone())
    }

    fn rule_set(&self, name: &str) -> Option<&RuleSetEntries> {
        (name == "set").then_some(&self.set)
    }
}

/// The same decision, made slowly and plainly.
fn reference(rules: &[Rule], lists: &Lists, facts: &Facts<'_>, may_resolve: bool) -> Outcome {
    fn name_entry(entry: &OwnedNameEntry, name: &str) -> bool {
        match entry {
            OwnedNameEntry::Full(full) => name == full,
            OwnedNameEntry::Suffix(suffix) => name == suffix || name.ends_with(&format!(".{suffix}")),
            OwnedNameEntry::Keyword(word) => name.contains(word.as_str()),
            OwnedNameEntry::Regex(regex) => regex::Regex::new(regex).unwrap().is_match(name),
        }
    }
    // `None` stands for "needs the address".
    fn holds(condition: &Condition, lists: &Lists, facts: &Facts<'_>, may_resolve: bool) -> Option<bool> {
        let unknown = may_resolve && facts.address.is_none() && facts.name.is_some();
        let by_name = |entry: OwnedNameEntry| Some(facts.name.is_some_and(|name| name_entry(&entry, name)));
        let by_address = |prefixes: &[Prefix], inverted: bool, resolve: bool| {
            if resolve && unknown {
                return None;
            }
            Some(facts.address.is_some_and(|address| {
                let inside = prefixes.iter().any(|prefix| prefix.contains(address));
                let family = prefixes.iter().any(|prefix| prefix.address().is_ipv4() == address.is_ipv4());
                if inverted { family && !inside } else { inside }
            }))
        };
        match condition {
            Condition::Any => Some(true),
            Condition::Domain(name) => by_name(OwnedNameEntry::Full(name.clone())),
            Condition::DomainSuffix(name) => by_name(OwnedNameEntry::Suffix(name.clone())),
            Condition::DomainKeyword(word) => by_name(OwnedNameEntry::Keyword(word.clone())),
            Condition::DomainRegex(regex) => by_name(OwnedNameEntry::Regex(regex.clone())),
            Condition::DomainWildcard(pattern) => Some(facts.name.is_some_and(|name| {
                let (pattern, name): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), name.split('.').collect());
                pattern.len() == name.len()
                    && pattern.iter().zip(name).all(|(part, label)| *part == "*" || *part == label)
            })),
            Condition::Geosite { .. } => {
                Some(facts.name.is_some_and(|name| lists.site.iter().any(|entry| name_entry(entry, name))))
            }
            Condition::Geoip { resolve, .. } => {
                by_address(&lists.addresses.prefixes, lists.addresses.inverted, *resolve)
            }
            Condition::IpCidr { prefix, resolve } => by_address(&[*prefix], false, *resolve),
            Condition::RuleSet { resolve, .. } => match &lists.set {
                RuleSetEntries::Addresses(prefixes) => by_address(prefixes, false, *resolve),
                RuleSetEntries::Names(_) | RuleSetEntries::Conditions(_) => {
                    unreachable!("the test's set holds addresses")
                }
            },
            Condition::Port(range) => Some(range.contains(&facts.port)),
            Condition::And(inner) => {
                let all: Vec<_> = inner.iter().map(|one| holds(one, lists, facts, may_resolve)).collect();
                if all.contains(&Some(false)) {
                    Some(false)
                } else if all.contains(&None) {
                    None
                } else {
                    Some(true)
                }
            }
            Condition::Or(inner) => {
                let all: Vec<_> = inner.iter().map(|one| holds(one, lists, facts, may_resolve)).collect();
                if all.contains(&Some(true)) {
                    Some(true)
                } else if all.contains(&None) {
                    None
                } else {
                    Some(false)
                }
            }
            Condition::Not(inner) => holds(inner, lists, facts, may_resolve).map(|value| !value),
            Condition::PrivateAddress
            | Condition::SourceCidr(_)
            | Condition::SourcePort(_)
            | Condition::Network(_)
            | Condition::Inbound(_)
            | Condition::Protocol(_)
            | Condition::ProcessName(_)
            | Condition::ProcessPath(_)
            | Condition::ProcessPathRegex(_)
            | Condition::User(_)
            | Condition::WifiSsid(_)
            | Condition::TimeOfDay { .. } => unreachable!("not generated: {condition}"),
        }
    }
    for (rule, one) in rules.iter().enumerate() {
        match holds(&one.condition, lists, facts, may_resolve) {
            Some(true) => {
                return Outcome::Decided(Decision { rule, target: one.target.clone() });
            }
            None => return Outcome::NeedsAddress { rule },
            Some(false) => {}
        }
    }
    Outcome::NoRule
}

fn name() -> impl Strategy<Value = String> {
    // A small alphabet of labels, so that names and rules meet often.
    prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "com", "x"]), 1..5)
        .prop_map(|labels| labels.join("."))
}

fn prefix() -> impl Strategy<Value = Prefix> {
    prop_oneof![
        (0u32..1 << 12, 20u8..=32).prop_map(|(low, length)| Prefix::new(IpAddr::V4(low.into()), length).unwrap()),
        (0u128..1 << 12, 116u8..=128).prop_map(|(low, length)| Prefix::new(
            IpAddr::V6((low | 1 << 100).into()),
            length
        )
        .unwrap()),
    ]
}

fn entry() -> impl Strategy<Value = OwnedNameEntry> {
    prop_oneof![
        name().prop_map(OwnedNameEntry::Full),
        name().prop_map(OwnedNameEntry::Suffix),
        name().prop_map(OwnedNameEntry::Keyword),
        name().prop_map(|name| OwnedNameEntry::Regex(format!("^{}", name.replace('.', "\\.")))),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        name().prop_map(Condition::Domain),
        name().prop_map(Condition::DomainSuffix),
        name().prop_map(Condition::DomainKeyword),
        name().prop_map(|name| Condition::DomainRegex(format!("{}$", name.replace('.', "\\.")))),
        name().prop_map(|name| Condition::DomainWildcard(name.replace('x', "*"))),
        (prefix(), any::<bool>()).prop_map(|(prefix, resolve)| Condition::IpCidr { prefix, resolve }),
        any::<bool>().prop_map(|resolve| Condition::Geoip { code: "list".into(), resolve }),
        any::<bool>().prop_map(|resolve| Condition::RuleSet { name: "set".into(), resolve }),
        Just(Condition::Geosite { code: "list".into(), attributes: vec![] }),
        (0u16..4, 0u16..4).prop_map(|(from, more)| Condition::Port(from..=from + more)),
        Just(Condition::Any),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(Condition::And),
            prop::collection::vec(inner.clone(), 1..3).prop_map(Condition::Or),
            inner.prop_map(|one| Condition::Not(Box::new(one))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decisions_equal_the_reference(
        conditions in prop::collection::vec(condition(), 1..12),
        site in prop::collection::vec(entry(), 1..6),
        prefixes in prop::collection::vec(prefix(), 1..6),
        inverted in any::<bool>(),
        set in prop::collection::vec(prefix(), 1..6),
        names in prop::collection::vec(name(), 8),
        addresses in prop::collection::vec(prefix(), 8),
        seed in any::<u64>(),
    ) {
        let rules: Vec<Rule> = conditions
            .into_iter()
            .enumerate()
            .map(|(index, condition)| Rule::new(condition, Target::Named(index.to_string())))
            .collect();
        let inverted = inverted && prefixes.iter().any(|one| one.address().is_ipv4()) && prefixes.iter().any(|one| one.address().is_ipv6());
        let lists = Lists { site, addresses: PrefixList { prefixes, inverted }, set: RuleSetEntries::Addresses(set) };
        let (matcher, _) = Matcher::compile(&rules, &lists, seed);
        for (index, name) in names.iter().enumerate() {
            let port = u16::try_from(index).unwrap();
            let mut facts = Facts::of_name(name, port);
            prop_assert_eq!(matcher.decide(&facts), reference(&rules, &lists, &facts, true));
            prop_assert_eq!(matcher.decide_after_resolve(&facts), reference(&rules, &lists, &facts, false));
            facts.address = Some(addresses[index].address());
            prop_assert_eq!(matcher.decide(&facts), reference(&rules, &lists, &facts, true));
            facts.name = None;
            prop_assert_eq!(matcher.decide(&facts), reference(&rules, &lists, &facts, true));
        }
    }
}
