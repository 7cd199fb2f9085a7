//! Which way a flow goes: by the mode, and for the mode "rule" by rules.

use culvert_ipc::types::Mode;
use culvert_route::data::NoData;
use culvert_route::{Condition, Facts, Matcher, Outcome, Rule, Target, normalise_name};
use culvert_wire::address::{Destination, Host, Network};

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Through the node.
    Node {
        /// The rule's name.
        rule: &'static str,
    },
    /// Directly.
    Direct {
        /// The rule's name.
        rule: &'static str,
    },
    /// Nowhere.
    Block {
        /// The rule's name.
        rule: &'static str,
    },
}

/// Names that no public resolver knows.
const PRIVATE_NAMES: [&str; 5] = ["localhost", "local", "lan", "internal", "home.arpa"];

/// Rules, compiled, with the name that each is shown by.
pub struct Rules {
    matcher: Matcher,
    names: Vec<&'static str>,
}

impl Rules {
    /// This computer, its own network and names without a public resolver go out directly; all
    /// else goes through the node. `seed` is a random number a process.
    pub fn built_in(seed: u64) -> Self {
        let suffix = |name: &str| Condition::DomainSuffix(name.to_owned());
        let names = PRIVATE_NAMES.iter().copied().map(suffix).collect();
        let rules = [
            ("private", Rule::new(Condition::PrivateAddress, Target::Direct)),
            ("private", Rule::new(Condition::Or(names), Target::Direct)),
            ("final", Rule::new(Condition::Any, Target::Proxy)),
        ];
        let (names, rules): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
        let (matcher, warnings) = Matcher::compile(&rules, &NoData, seed);
        for warning in warnings {
            tracing::warn!("rule {}: {}", warning.rule, warning.reason);
        }
        Self { matcher, names }
    }

    /// Decides for a flow to `destination`.
    pub fn decide(&self, mode: Mode, destination: &Destination, network: Network, inbound: &str) -> Decision {
        match mode {
            Mode::Global => Decision::Node { rule: "global" },
            Mode::Direct => Decision::Direct { rule: "direct" },
            Mode::Rule => self.by_rules(destination, network, inbound),
        }
    }

    fn by_rules(&self, destination: &Destination, network: Network, inbound: &str) -> Decision {
        let name;
        let facts = match &destination.host {
            Host::Ip(address) => Facts::of_address(*address, destination.port),
            Host::Name(written) => {
                name = normalise_name(written);
                Facts::of_name(&name, destination.port)
            }
        };
        // Names are resolved behind the node, so a rule never asks for their address here.
        let outcome = self.matcher.decide_after_resolve(&Facts { network, inbound, ..facts });
        let Outcome::Decided(decision) = outcome else { return Decision::Node { rule: "final" } };
        let rule = self.names.get(decision.rule).copied().unwrap_or("final");
        match decision.target {
            // There are no groups yet: a name stands for the node in use.
            Target::Proxy | Target::Named(_) => Decision::Node { rule },
            Target::Direct => Decision::Direct { rule },
            Target::Block(_) => Decision::Block { rule },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(mode: Mode, host: &str) -> Decision {
        let target = Destination::new(Host::parse(host).unwrap(), 443);
        Rules::built_in(7).decide(mode, &target, Network::Tcp, "mixed")
    }

    #[test]
    fn private_targets_go_directly() {
        for host in [
            "127.0.0.1",
            "10.1.2.3",
            "100.64.0.1",
            "::1",
            "fe80::1",
            "::ffff:192.168.0.1",
            "printer.LOCAL.",
            "localhost",
        ] {
            assert_eq!(decide(Mode::Rule, host), Decision::Direct { rule: "private" }, "{host}");
        }
        for host in ["192.0.2.1", "100.128.0.1", "2001:db8::1", "example.com", "notlocalhost", "mylan"] {
            assert_eq!(decide(Mode::Rule, host), Decision::Node { rule: "final" }, "{host}");
        }
    }

    #[test]
    fn modes_need_no_rules() {
        assert_eq!(decide(Mode::Global, "127.0.0.1"), Decision::Node { rule: "global" });
        assert_eq!(decide(Mode::Direct, "example.com"), Decision::Direct { rule: "direct" });
    }
}
