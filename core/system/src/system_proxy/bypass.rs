//! Destinations that programs reach without the proxy, and the dialects in which systems want them.

use std::net::{IpAddr, Ipv4Addr};

/// At most so many entries are taken; settings of desktops are no place for rule sets.
pub const LIMIT: usize = 256;

/// This machine, the private networks and names of the local link.
#[must_use]
pub fn default_list() -> Vec<String> {
    [
        "localhost",
        "*.local",
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "::1",
        "fe80::/10",
        "fc00::/7",
    ]
    .map(String::from)
    .to_vec()
}

/// Whether an entry is one we pass on: a name, `*.name`, an address or a network. Everything else (quotes, commas,
/// spaces, control characters) could change its meaning in one of the dialects.
#[must_use]
pub fn is_valid(entry: &str) -> bool {
    !entry.is_empty()
        && entry.len() <= 255
        && entry.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '*' | ':' | '/'))
}

/// The entries of `list` that are fit for use.
pub fn valid(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(String::as_str).filter(|entry| is_valid(entry)).take(LIMIT)
}

/// For desktops that know suffixes as `.name` (KDE) rather than `*.name`.
#[must_use]
pub fn with_dot_suffixes(list: &[String]) -> Vec<String> {
    valid(list).map(|entry| entry.strip_prefix('*').unwrap_or(entry).to_owned()).collect()
}

/// For Windows, which knows no networks, only patterns over the text of a host: `10.0.0.0/8` becomes `10.*`,
/// `172.16.0.0/12` sixteen patterns. `<local>`, names without a dot, comes last.
#[must_use]
pub fn as_windows_patterns(list: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for entry in valid(list) {
        match network(entry) {
            Some((IpAddr::V4(address), prefix)) => out.extend(ipv4_patterns(address, prefix)),
            Some((IpAddr::V6(address), 128)) => out.push(format!("[{address}]")),
            Some((IpAddr::V6(address), prefix)) => out.push(ipv6_pattern(address, prefix)),
            None => out.push(entry.to_owned()),
        }
    }
    out.push("<local>".into());
    out
}

fn network(entry: &str) -> Option<(IpAddr, u8)> {
    if let Ok(address) = entry.parse::<IpAddr>() {
        return Some((address, if address.is_ipv4() { 32 } else { 128 }));
    }
    let (address, prefix) = entry.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let prefix: u8 = prefix.parse().ok()?;
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, prefix))
}

fn ipv4_patterns(address: Ipv4Addr, prefix: u8) -> Vec<String> {
    let octets = address.octets();
    let whole = usize::from(prefix / 8);
    let fixed: Vec<String> = octets.iter().take(whole).map(u8::to_string).collect();
    if whole == 4 {
        return vec![fixed.join(".")];
    }
    let spare = prefix % 8;
    if spare == 0 {
        return vec![if fixed.is_empty() { "*".into() } else { format!("{}.*", fixed.join(".")) }];
    }
    let first = octets.get(whole).copied().unwrap_or_default() & (0xffu8 << (8 - spare));
    let count = 1u16 << (8 - spare);
    let end = if whole == 3 { "" } else { ".*" };
    (0..count)
        .map(|step| {
            let mut parts = fixed.clone();
            parts.push((u16::from(first) + step).to_string());
            format!("{}{end}", parts.join("."))
        })
        .collect()
}

/// The longest whole group of the network, as text: `fe80::/10` becomes `[fe80:*`. It covers what such networks are
/// used for, not every address of them, since a pattern can't say that.
fn ipv6_pattern(address: std::net::Ipv6Addr, prefix: u8) -> String {
    let groups = usize::from(prefix / 16).max(1);
    let text: Vec<String> = address.segments().iter().take(groups).map(|group| format!("{group:x}")).collect();
    format!("[{}:*", text.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_patterns_cover_the_networks() {
        let list: Vec<String> = [
            "localhost",
            "10.0.0.0/8",
            "192.168.0.0/16",
            "172.16.0.0/12",
            "::1",
            "1.2.3.4",
            "fe80::/10",
            "1.2.3.252/30",
        ]
        .map(String::from)
        .to_vec();
        let patterns = as_windows_patterns(&list);
        for expected in [
            "localhost",
            "10.*",
            "192.168.*",
            "172.16.*",
            "172.31.*",
            "[::1]",
            "1.2.3.4",
            "[fe80:*",
            "1.2.3.252",
            "1.2.3.255",
            "<local>",
        ] {
            assert!(patterns.iter().any(|pattern| pattern == expected), "{expected} in {patterns:?}");
        }
        assert!(!patterns.iter().any(|pattern| pattern == "172.32.*" || pattern == "172.15.*"));
    }

    #[test]
    fn entries_that_could_break_a_dialect_are_left_out() {
        let list: Vec<String> =
            ["ok.example", "a,b", "a;b", "it's", "a b", "", "\u{0}", "b\"", "例え.jp"].map(String::from).to_vec();
        assert_eq!(valid(&list).collect::<Vec<_>>(), ["ok.example", "例え.jp"]);
    }
}
