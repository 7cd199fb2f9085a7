//! TUN device, routes, rules, DNS settings and firewall, per system.

#[cfg(target_os = "linux")]
pub mod linux;
