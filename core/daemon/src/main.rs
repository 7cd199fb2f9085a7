//! The core: command line and service.

fn main() {}
