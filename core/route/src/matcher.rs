//! The compiled matcher.
//!
//! Every question about a name or an address that any rule asks is an *atom*. One walk over the
//! labels of a name, one search among address ranges and one pass of a word automaton say which
//! atoms are true; the rules are then tried in order against that set of bits. So the cost of a
//! decision hardly depends on how large the lists behind the rules are.

mod address_index;
mod compile;
mod evaluate;
mod name_index;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::data::RuleData;
use crate::flow::Facts;
use crate::rule::{Rule, Target};

use compile::Compiled;

/// Rules, ready to decide. Immutable: a change of rules is a new matcher, swapped in whole.
pub struct Matcher {
    compiled: Compiled,
}

/// Something in a rule that could not be used. The rule stays in its place and never matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The rule's place, counted from 0.
    pub rule: usize,
    /// What is missing or broken.
    pub reason: String,
}

/// What the matcher says of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The rule at `rule` decides.
    Decided(Decision),
    /// The rule at `rule` asks for the destination's address, which is not known yet: resolve the
    /// name, set [`Facts::address`] (or [`Facts::name`] only, when that fails) and ask
    /// [`Matcher::decide_after_resolve`].
    NeedsAddress {
        /// The rule that asks.
        rule: usize,
    },
    /// No rule matches.
    NoRule,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The deciding rule's place, counted from 0.
    pub rule: usize,
    /// Where the flow goes.
    pub target: Target,
}

impl Matcher {
    /// Compiles `rules`, taking lists from `data`. `seed` keys the hash tables (a random number a
    /// process, so that nobody can craft colliding names).
    pub fn compile(rules: &[Rule], data: &dyn RuleData, seed: u64) -> (Self, Vec<Warning>) {
        let (compiled, warnings) = compile::compile(rules, data, seed);
        (Self { compiled }, warnings)
    }

    /// Decides a flow.
    pub fn decide(&self, facts: &Facts<'_>) -> Outcome {
        self.compiled.decide(facts, true)
    }

    /// Decides a flow whose name was resolved, or could not be: never asks for an address again.
    pub fn decide_after_resolve(&self, facts: &Facts<'_>) -> Outcome {
        self.compiled.decide(facts, false)
    }

    /// How many rules were compiled, those that are off or inactive included.
    pub fn len(&self) -> usize {
        self.compiled.rules.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.compiled.rules.is_empty()
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher").field("rules", &self.len()).finish_non_exhaustive()
    }
}
