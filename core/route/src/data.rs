//! Rule data: the lists behind rules, read from the files that the field uses.
//!
//! Files come from the network: every reader is bounded by its input, refuses what it does not
//! understand with the place, and never panics.

pub mod geodata;
pub mod text;

use crate::rule::{Condition, Prefix};

/// One entry of a list of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameEntry<'a> {
    /// Exactly this name.
    Full(&'a str),
    /// This name and everything below it.
    Suffix(&'a str),
    /// Names that contain this.
    Keyword(&'a str),
    /// Names that match this expression (unanchored).
    Regex(&'a str),
}

/// The same, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedNameEntry {
    /// Exactly this name.
    Full(String),
    /// This name and everything below it.
    Suffix(String),
    /// Names that contain this.
    Keyword(String),
    /// Names that match this expression (unanchored).
    Regex(String),
}

impl OwnedNameEntry {
    /// The entry as a borrowed one.
    pub fn borrowed(&self) -> NameEntry<'_> {
        match self {
            Self::Full(name) => NameEntry::Full(name),
            Self::Suffix(name) => NameEntry::Suffix(name),
            Self::Keyword(word) => NameEntry::Keyword(word),
            Self::Regex(regex) => NameEntry::Regex(regex),
        }
    }
}

/// A list of prefixes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrefixList {
    /// The prefixes.
    pub prefixes: Vec<Prefix>,
    /// Whether the list means every address but these.
    pub inverted: bool,
}

/// What a rule set holds.
#[derive(Debug, Clone, PartialEq)]
pub enum RuleSetEntries {
    /// Names.
    Names(Vec<OwnedNameEntry>),
    /// Addresses.
    Addresses(Vec<Prefix>),
    /// Whole conditions, one of which must hold.
    Conditions(Vec<Condition>),
}

/// Where the matcher takes lists from.
pub trait RuleData {
    /// Calls `entry` for each entry of the geosite list `code` (lower case) that has all of
    /// `attributes`. `false` when there is no such list.
    fn geosite(&self, code: &str, attributes: &[String], entry: &mut dyn FnMut(NameEntry<'_>)) -> bool;

    /// The geoip list `code` (lower case).
    fn geoip(&self, code: &str) -> Option<PrefixList>;

    /// The rule set `name`.
    fn rule_set(&self, name: &str) -> Option<&RuleSetEntries>;
}

/// No lists at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoData;

impl RuleData for NoData {
    fn geosite(&self, _: &str, _: &[String], _: &mut dyn FnMut(NameEntry<'_>)) -> bool {
        false
    }

    fn geoip(&self, _: &str) -> Option<PrefixList> {
        None
    }

    fn rule_set(&self, _: &str) -> Option<&RuleSetEntries> {
        None
    }
}

/// Why a file of rule data can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// The file ends in the middle of an entry, or an entry breaks the format.
    #[error("the rule data is damaged at byte {at}: {what}")]
    Damaged {
        /// Offset in the file.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// A line can't be used.
    #[error("line {line}: {reason}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}
