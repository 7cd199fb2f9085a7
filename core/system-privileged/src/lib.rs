//! TUN device, routes, rules, DNS settings and firewall, per system.
