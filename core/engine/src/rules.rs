//! Which way a flow goes: by the mode, and for the mode "rule" by what is built in.

use culvert_ipc::types::Mode;
use culvert_wire::address::{Destination, Host};

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
}

/// Decides for a flow to `destination`.
pub fn decide(mode: Mode, destination: &Destination) -> Decision {
    match mode {
        Mode::Global => Decision::Node { rule: "global" },
        Mode::Direct => Decision::Direct { rule: "direct" },
        Mode::Rule if is_private(&destination.host) => Decision::Direct { rule: "private" },
        Mode::Rule => Decision::Node { rule: "final" },
    }
}

/// This computer, its own network, and names that no public resolver knows.
fn is_private(host: &Host) -> bool {
    match host {
        Host::Ip(address) => match address.to_canonical() {
            std::net::IpAddr::V4(v4) => {
                let [a, b, ..] = v4.octets();
                v4.is_private()
                    || v4.is_loopback()
                    || v4.is_link_local()
                    || v4.is_multicast()
                    || v4.is_broadcast()
                    || a == 0
                    // Carrier-grade NAT.
                    || (a == 100 && (64..128).contains(&b))
            }
            std::net::IpAddr::V6(v6) => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    || v6.is_unique_local()
                    || v6.is_unicast_link_local()
            }
        },
        Host::Name(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost"
                || [".localhost", ".local", ".lan", ".internal", ".home.arpa"]
                    .iter()
                    .any(|suffix| name.ends_with(suffix))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_of(host: &str) -> Decision {
        decide(Mode::Rule, &Destination::new(Host::parse(host).unwrap(), 443))
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
            assert_eq!(rule_of(host), Decision::Direct { rule: "private" }, "{host}");
        }
        for host in ["192.0.2.1", "100.128.0.1", "2001:db8::1", "example.com", "notlocalhost", "local"] {
            assert_eq!(rule_of(host), Decision::Node { rule: "final" }, "{host}");
        }
    }

    #[test]
    fn modes_need_no_rules() {
        let target = Destination::new(Host::parse("127.0.0.1").unwrap(), 1);
        assert_eq!(decide(Mode::Global, &target), Decision::Node { rule: "global" });
        assert_eq!(decide(Mode::Direct, &target), Decision::Direct { rule: "direct" });
    }
}
