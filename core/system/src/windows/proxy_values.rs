//! The values of Windows' proxy settings, apart from the calls that carry them.

/// Use no proxy; it is always set beside the others.
pub(crate) const DIRECT: u32 = 1;
/// Use the fixed proxy.
pub(crate) const PROXY: u32 = 2;

/// The flags with the fixed proxy on and all else off: a script or the search for one would come before it.
pub(crate) fn flags_on() -> u32 {
    DIRECT | PROXY
}

/// The address that a server setting names for HTTP: `HOST:PORT`, or `http=HOST:PORT;https=…`.
pub(crate) fn http_server(setting: &str) -> Option<&str> {
    let mut plain = None;
    for part in setting.split([';', ' ']).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some((kind, address)) if kind.eq_ignore_ascii_case("http") => return Some(strip_scheme(address)),
            Some(_) => {}
            None => plain = plain.or(Some(part)),
        }
    }
    plain.map(strip_scheme)
}

fn strip_scheme(address: &str) -> &str {
    address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_in_their_forms() {
        assert_eq!(http_server("127.0.0.1:2080"), Some("127.0.0.1:2080"));
        assert_eq!(http_server("https=a:1;HTTP=http://b:2/;ftp=c:3"), Some("b:2"));
        assert_eq!(http_server("socks=a:1"), None);
        assert_eq!(http_server(""), None);
        assert_eq!(flags_on(), 3);
    }
}
