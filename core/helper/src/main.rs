//! The privileged helper.

fn main() {}
