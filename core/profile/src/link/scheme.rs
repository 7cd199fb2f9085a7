//! The schemes of share links, those of others included, so that they can be refused by name.

/// What a scheme stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Vmess,
    Vless,
    Trojan,
    Anytls,
    Shadowsocks,
    Hysteria2,
    Tuic,
    Wireguard,
    /// With the version that the scheme names.
    Socks(&'static str),
    Http {
        tls: bool,
    },
    /// Recognised and not supported, with its name for people.
    Refused(&'static str),
}

/// Scheme and meaning; the longest spelling of a family first, so that a suffix search finds it.
const SCHEMES: &[(&str, Scheme)] = &[
    ("vmess", Scheme::Vmess),
    ("vless", Scheme::Vless),
    ("trojan", Scheme::Trojan),
    ("anytls", Scheme::Anytls),
    ("ss", Scheme::Shadowsocks),
    ("shadowsocks", Scheme::Shadowsocks),
    ("hysteria2", Scheme::Hysteria2),
    ("hy2", Scheme::Hysteria2),
    ("tuic", Scheme::Tuic),
    ("wireguard", Scheme::Wireguard),
    ("wg", Scheme::Wireguard),
    ("socks", Scheme::Socks("5")),
    ("socks5", Scheme::Socks("5")),
    ("socks5h", Scheme::Socks("5")),
    ("socks4", Scheme::Socks("4")),
    ("socks4a", Scheme::Socks("4a")),
    ("http", Scheme::Http { tls: false }),
    ("https", Scheme::Http { tls: true }),
    ("ssr", Scheme::Refused("ShadowsocksR")),
    ("hysteria", Scheme::Refused("Hysteria 1 (another protocol than Hysteria 2)")),
    ("hy", Scheme::Refused("Hysteria 1 (another protocol than Hysteria 2)")),
    ("hysteria2+realm", Scheme::Refused("Hysteria 2 realm")),
    ("naive+https", Scheme::Refused("NaiveProxy")),
    ("naive+quic", Scheme::Refused("NaiveProxy")),
    ("naive", Scheme::Refused("NaiveProxy")),
    ("ssh", Scheme::Refused("SSH")),
    ("juicity", Scheme::Refused("Juicity")),
    ("snell", Scheme::Refused("Snell")),
    ("trojan-go", Scheme::Refused("trojan-go")),
    ("mieru", Scheme::Refused("mieru")),
    ("mierus", Scheme::Refused("mieru")),
    ("brook", Scheme::Refused("Brook")),
    ("shadowtls", Scheme::Refused("ShadowTLS")),
    ("sudoku", Scheme::Refused("Sudoku")),
    ("masque", Scheme::Refused("MASQUE")),
    ("tt", Scheme::Refused("TrustTunnel")),
    ("happ", Scheme::Refused("a link locked to Happ")),
    ("v2raytun", Scheme::Refused("a link locked to v2RayTun")),
    ("npvt", Scheme::Refused("a link locked to NapsternetV")),
    ("npvt-ssh", Scheme::Refused("a link locked to NapsternetV")),
    ("nm-vless", Scheme::Refused("a link locked to NetMod")),
    ("nm-vmess", Scheme::Refused("a link locked to NetMod")),
    ("nm-trojan", Scheme::Refused("a link locked to NetMod")),
    ("nm-ssr", Scheme::Refused("a link locked to NetMod")),
    ("nm-ss", Scheme::Refused("a link locked to NetMod")),
    ("nm-xray-json", Scheme::Refused("a link locked to NetMod")),
    ("nm-dns", Scheme::Refused("a link locked to NetMod")),
    ("ssocks", Scheme::Refused("a link locked to SocksIP")),
    ("ar-vless", Scheme::Refused("a link locked to ArmodVPN")),
    ("ar-vmess", Scheme::Refused("a link locked to ArmodVPN")),
    ("ar-ss", Scheme::Refused("a link locked to ArmodVPN")),
    ("howdy", Scheme::Refused("a link locked to Howdy")),
    ("sn", Scheme::Refused("a link in the private format of NekoBox")),
];

impl Scheme {
    /// The scheme with this name, in lower case.
    pub(crate) fn named(word: &str) -> Option<Self> {
        SCHEMES.iter().find(|(name, _)| *name == word).map(|(_, scheme)| *scheme)
    }

    /// The length of the longest scheme that `run` ends with; `run` is glued to what stood before it.
    pub(crate) fn at_end_of(run: &str) -> Option<usize> {
        let short = run.len() <= 12;
        SCHEMES
            .iter()
            .filter(|(name, scheme)| {
                let glued = name.len() >= if short { 5 } else { 2 };
                let proxy = !matches!(scheme, Scheme::Http { .. } | Scheme::Refused(_));
                proxy
                    && glued
                    && run.len() > name.len()
                    && run.is_char_boundary(run.len() - name.len())
                    && run[run.len() - name.len()..].eq_ignore_ascii_case(name)
            })
            .map(|(name, _)| name.len())
            .max()
    }
}

/// Whether `text` could be a scheme.
pub(crate) fn is_word(text: &str) -> bool {
    text.len() <= 32 && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(is_scheme_byte)
}

/// Whether a scheme may hold `byte`.
pub(crate) fn is_scheme_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}
