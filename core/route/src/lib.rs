//! Where a flow goes, and why: rules, rule data and the matcher.
//!
//! Pure: rules and lists come in as values and bytes, decisions go out. A [`Matcher`] is compiled
//! once from a list of [`Rule`]s and the named lists that they mention, and then answers
//! [`Matcher::decide`] without locks or allocation on the common way.

pub mod data;
mod flow;
pub mod matcher;
pub mod rule;

pub use flow::{Facts, SniffedProtocol, normalise_name};
pub use matcher::{Decision, Matcher, Outcome, Warning};
pub use rule::{BlockKind, Condition, Rule, Target};
