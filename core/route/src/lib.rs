//! Routing rules, rule data and the matcher.
