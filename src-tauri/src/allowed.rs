//! The methods that the page may call.

/// Methods that belong to the shell: versions, the subscription and the end of the core are not
/// the page's to ask for.
const SHELL_ONLY: [&str; 3] = ["system.hello", "system.shutdown", "state.subscribe"];

/// Whether the page may call `method`: it is one of the interface, and not the shell's own.
pub fn may_call(method: &str) -> bool {
    culvert_ipc::methods::NAMES.contains(&method) && !SHELL_ONLY.contains(&method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_calls_the_interface_and_nothing_else() {
        assert!(may_call("nodes.list"));
        assert!(may_call("connection.connect"));
        for method in SHELL_ONLY {
            assert!(!may_call(method), "{method}");
        }
        for method in ["", "nodes.list ", "rpc.discover", "system", "../nodes.list"] {
            assert!(!may_call(method), "{method}");
        }
    }
}
