//! Lists as text: plain names, mihomo's `domain`, `ipcidr` and `classical` lists (text or YAML),
//! hosts files and the name part of AdGuard lists.

use super::{DataError, OwnedNameEntry, RuleSetEntries};
use crate::flow::normalise_name;
use crate::rule::{Condition, Prefix, Rule};

/// What the lines of a list are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Names, with mihomo's `+.`, `.` and `*.` forms.
    Domain,
    /// Prefixes.
    IpCidr,
    /// `TYPE,VALUE` conditions.
    Classical,
    /// AdGuard's blocking syntax, or a hosts file: names to block.
    AdGuard,
}

/// A list as read: what it holds, and the lines that could not be used.
#[derive(Debug, Clone, PartialEq)]
pub struct TextList {
    /// The entries.
    pub entries: RuleSetEntries,
    /// Lines that were passed over, with the reason. Comments and blank lines are not among them.
    pub skipped: Vec<DataError>,
}

/// Reads a list. Bad lines are passed over and reported; they cost nothing else.
pub fn parse(text: &str, behaviour: Behaviour) -> TextList {
    let mut skipped = Vec::new();
    let mut names = Vec::new();
    let mut prefixes = Vec::new();
    let mut conditions = Vec::new();
    for (index, raw) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let mut skip = |reason: &str| skipped.push(DataError::Line { line: index + 1, reason: reason.to_owned() });
        let Some(line) = payload_line(raw, behaviour) else {
            continue;
        };
        match behaviour {
            Behaviour::Domain => match domain_line(line) {
                Some(DomainLine::Names(mut entries)) => names.append(&mut entries),
                Some(DomainLine::Pattern(condition)) => conditions.push(condition),
                None => skip("this is no domain name"),
            },
            Behaviour::IpCidr => match Prefix::parse(line) {
                Some(prefix) => prefixes.push(prefix),
                None => skip("this is no network prefix"),
            },
            Behaviour::Classical => match Rule::parse(&with_target(line)) {
                Ok(rule) => conditions.push(rule.condition),
                Err(error) => skip(&error.to_string()),
            },
            Behaviour::AdGuard => match adguard_line(line) {
                Some(entry) => names.push(entry),
                None => skip("this AdGuard rule is about more than a name"),
            },
        }
    }
    let entries = match behaviour {
        Behaviour::IpCidr => RuleSetEntries::Addresses(prefixes),
        Behaviour::Classical => RuleSetEntries::Conditions(conditions),
        Behaviour::Domain | Behaviour::AdGuard if conditions.is_empty() => RuleSetEntries::Names(names),
        // Wildcards have no place in a list of names: the whole list becomes conditions.
        Behaviour::Domain | Behaviour::AdGuard => {
            conditions.extend(names.into_iter().map(|name| match name {
                OwnedNameEntry::Full(name) => Condition::Domain(name),
                OwnedNameEntry::Suffix(name) => Condition::DomainSuffix(name),
                OwnedNameEntry::Keyword(word) => Condition::DomainKeyword(word),
                OwnedNameEntry::Regex(regex) => Condition::DomainRegex(regex),
            }));
            RuleSetEntries::Conditions(conditions)
        }
    };
    TextList { entries, skipped }
}

/// The part of a line that says something: comments, YAML's dashes and quotes are taken off.
fn payload_line(raw: &str, behaviour: Behaviour) -> Option<&str> {
    let mut line = raw.trim();
    let comment = match behaviour {
        Behaviour::AdGuard => line.starts_with('!') || (line.starts_with('#') && !line.starts_with("##")),
        Behaviour::Domain | Behaviour::IpCidr | Behaviour::Classical => line.starts_with('#') || line.starts_with("//"),
    };
    if comment || matches!(line, "payload:" | "rules:") {
        return None;
    }
    if behaviour != Behaviour::AdGuard {
        line = line.strip_prefix("- ").unwrap_or(line).trim();
        line = line.split(" #").next().unwrap_or(line).trim_end();
        for quote in ['\'', '"'] {
            line = line.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)).unwrap_or(line);
        }
    }
    (!line.is_empty()).then_some(line)
}

/// A classical line has no target; give it one so that the rule parser reads it.
fn with_target(line: &str) -> String {
    match line.strip_suffix(",no-resolve") {
        Some(rest) => format!("{rest},DIRECT,no-resolve"),
        None => format!("{line},DIRECT"),
    }
}

enum DomainLine {
    Names(Vec<OwnedNameEntry>),
    Pattern(Condition),
}

fn domain_line(line: &str) -> Option<DomainLine> {
    let name = normalise_name(line).into_owned();
    let valid = |name: &str| {
        !name.is_empty()
            && !line.ends_with('.')
            && !name.contains(['/', ' ', ',', ':'])
            && name.split('.').all(|label| !label.is_empty())
    };
    if let Some(rest) = name.strip_prefix("+.") {
        return (valid(rest) && !rest.contains('*'))
            .then(|| DomainLine::Names(vec![OwnedNameEntry::Suffix(rest.to_owned())]));
    }
    if let Some(rest) = name.strip_prefix('.') {
        // Subdomains only: a suffix that the name itself does not meet.
        return (valid(rest) && !rest.contains('*')).then(|| {
            DomainLine::Pattern(Condition::And(vec![
                Condition::DomainSuffix(rest.to_owned()),
                Condition::Not(Box::new(Condition::Domain(rest.to_owned()))),
            ]))
        });
    }
    if !valid(&name) {
        return None;
    }
    if name.contains('*') {
        let whole_labels = name.split('.').all(|label| label == "*" || !label.contains('*'));
        return whole_labels.then_some(DomainLine::Pattern(Condition::DomainWildcard(name)));
    }
    Some(DomainLine::Names(vec![OwnedNameEntry::Full(name)]))
}

fn adguard_line(line: &str) -> Option<OwnedNameEntry> {
    let valid = |name: &str| {
        name.contains('.')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
            && name.parse::<std::net::IpAddr>().is_err()
    };
    let named = |name: &str| normalise_name(name).into_owned();
    let mut words = line.split_whitespace();
    if let (Some(first), Some(second)) = (words.next(), words.next()) {
        let sinkhole = matches!(first, "0.0.0.0" | "127.0.0.1" | "::" | "::1");
        return (sinkhole && valid(second)).then(|| OwnedNameEntry::Full(named(second)));
    }
    if let Some(rest) = line.strip_prefix("||") {
        let (name, modifier) = rest.split_once('^')?;
        return (matches!(modifier, "" | "|" | "$important") && valid(name))
            .then(|| OwnedNameEntry::Suffix(named(name)));
    }
    valid(line).then(|| OwnedNameEntry::Full(named(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mihomo_domain_lists() {
        let list = parse(
            "\u{feff}payload:\r\n  - '+.a.example'\r\n  - \"b.Example\" # note\r\n  - bad.\r\n# c\r\n",
            Behaviour::Domain,
        );
        assert_eq!(
            list.entries,
            RuleSetEntries::Names(vec![
                OwnedNameEntry::Suffix("a.example".into()),
                OwnedNameEntry::Full("b.example".into())
            ])
        );
        assert_eq!(list.skipped, [DataError::Line { line: 4, reason: "this is no domain name".into() }]);
    }

    #[test]
    fn wildcards_and_subdomain_forms_become_conditions() {
        let list = parse("*.a.example\n.b.example\nc.example", Behaviour::Domain);
        let RuleSetEntries::Conditions(conditions) = list.entries else { panic!("{:?}", list.entries) };
        assert_eq!(conditions.len(), 3);
        assert_eq!(conditions[0], Condition::DomainWildcard("*.a.example".into()));
    }

    #[test]
    fn classical_lists_have_no_targets() {
        let list = parse("DOMAIN-SUFFIX,a.example\nIP-CIDR,192.0.2.0/24,no-resolve\nMATCHES,x", Behaviour::Classical);
        let RuleSetEntries::Conditions(conditions) = list.entries else { panic!() };
        assert_eq!(conditions.len(), 2);
        assert_eq!(list.skipped.len(), 1);
    }

    #[test]
    fn adguard_names_only() {
        let list = parse(
            "! title\n||ads.example^\n||x.example^$script\n0.0.0.0 t.example\nplain.example\n##.banner\n/regex/\n@@||ok.example^",
            Behaviour::AdGuard,
        );
        assert_eq!(
            list.entries,
            RuleSetEntries::Names(vec![
                OwnedNameEntry::Suffix("ads.example".into()),
                OwnedNameEntry::Full("t.example".into()),
                OwnedNameEntry::Full("plain.example".into()),
            ])
        );
        assert_eq!(list.skipped.len(), 4);
    }
}
