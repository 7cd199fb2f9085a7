//! Harness for tests against real peers: processes, ports, namespaces, payloads.
