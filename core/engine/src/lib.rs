//! Puts the core together: dispatcher, connections, tests, store.
