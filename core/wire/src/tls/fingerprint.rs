//! Which browser's handshake to wear, as data.

mod tables;

use crate::random::Random;

/// Stands for a GREASE value (RFC 8701) in the lists of a fingerprint.
pub(crate) const GREASE: u16 = 0x0a0a;

/// A browser whose ClientHello is worn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Browser {
    /// Chromium and Chrome.
    Chrome,
    /// Firefox.
    Firefox,
    /// Safari on macOS.
    Safari,
    /// Safari (and everything else) on iOS.
    Ios,
    /// Chrome on Android.
    Android,
    /// Edge, which is Chromium and says the same hello.
    Edge,
    /// One of the above, drawn for each connection.
    Random,
    /// No browser: a plausible hello of drawn ciphers and extensions.
    Randomized,
    /// The same, without ALPN.
    RandomizedNoAlpn,
}

impl Browser {
    /// The browser that a share link's `fp` names; `None` for a name that is not known.
    ///
    /// Names of Chromium's children (360, QQ) and of old versions (`hellochrome_120`) mean the
    /// browser's present hello: an outdated one stands out more than another brand.
    pub fn from_name(name: &str) -> Option<Self> {
        let lower = name.trim().to_ascii_lowercase();
        let bare = lower.strip_prefix("hello").unwrap_or(&lower);
        let family = bare.split('_').next().unwrap_or(bare);
        match family {
            "" | "chrome" | "chromium" | "360" | "qq" => Some(Self::Chrome),
            "firefox" => Some(Self::Firefox),
            "safari" => Some(Self::Safari),
            "ios" | "ipados" => Some(Self::Ios),
            "android" => Some(Self::Android),
            "edge" => Some(Self::Edge),
            "random" => Some(Self::Random),
            "randomized" | "randomizedalpn" => Some(Self::Randomized),
            "randomizednoalpn" => Some(Self::RandomizedNoAlpn),
            _ => None,
        }
    }

    /// The table for one connection.
    pub(crate) fn plan(self, random: &mut dyn Random) -> Plan {
        match self {
            Self::Chrome | Self::Android | Self::Edge => Plan::of(&tables::CHROMIUM),
            Self::Firefox => Plan::of(&tables::FIREFOX),
            Self::Safari | Self::Ios => Plan::of(&tables::SAFARI),
            Self::Random => {
                let tables = [&tables::CHROMIUM, &tables::FIREFOX, &tables::SAFARI];
                Plan::of(tables[below(random, tables.len())])
            }
            Self::Randomized => randomized(random, true),
            Self::RandomizedNoAlpn => randomized(random, false),
        }
    }
}

/// One browser's hello.
pub(crate) struct Table {
    /// Cipher suites.
    ciphers: &'static [u16],
    /// Extensions in order.
    extensions: &'static [Extension],
    /// Whether the extensions between the first and the last (GREASE) are shuffled.
    shuffled: bool,
    /// Whether the hybrid share and the plain one use one X25519 key.
    joined_shares: bool,
}

/// One extension of a hello.
#[derive(Debug, Clone)]
pub(crate) enum Extension {
    /// GREASE with this body.
    Grease(&'static [u8]),
    /// A fixed type and body.
    Fixed(u16, &'static [u8]),
    /// server_name.
    ServerName,
    /// supported_groups.
    Groups(&'static [u16]),
    /// application_layer_protocol_negotiation.
    Alpn,
    /// signature_algorithms.
    Signatures(&'static [u16]),
    /// delegated_credentials: schemes.
    DelegatedCredentials(&'static [u16]),
    /// key_share: groups.
    KeyShare(&'static [u16]),
    /// supported_versions.
    Versions(&'static [u16]),
    /// compress_certificate: algorithms.
    CompressCertificate(&'static [u16]),
    /// Application settings (ALPS) for `h2`, with its type.
    ApplicationSettings(u16),
    /// GREASE of Encrypted Client Hello: payload lengths to draw from.
    EncryptedHello(&'static [usize]),
    /// trust_anchors: identifiers in hex.
    TrustAnchors(&'static [&'static [u8]]),
    /// record_size_limit.
    RecordSizeLimit(u16),
    /// Padding to 512 bytes of a hello of 256 to 511 (BoringSSL's rule).
    Padding,
}

/// What one connection's hello will be made of.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) ciphers: Vec<u16>,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) joined_shares: bool,
    pub(crate) shuffled: bool,
}

impl Plan {
    fn of(table: &Table) -> Self {
        Self {
            ciphers: table.ciphers.to_vec(),
            extensions: table.extensions.to_vec(),
            joined_shares: table.joined_shares,
            shuffled: table.shuffled,
        }
    }

    /// Shuffles what the browser shuffles: everything but GREASE at the ends and padding.
    pub(crate) fn shuffle(&mut self, random: &mut dyn Random) {
        if !self.shuffled {
            return;
        }
        let fixed = |extension: &Extension| matches!(extension, Extension::Grease(_) | Extension::Padding);
        let places: Vec<usize> = (0..self.extensions.len()).filter(|at| !fixed(&self.extensions[*at])).collect();
        for last in (1..places.len()).rev() {
            self.extensions.swap(places[last], places[below(random, last + 1)]);
        }
    }
}

/// A uniform number below `bound` (at least 1, at most 65536).
pub(crate) fn below(random: &mut dyn Random, bound: usize) -> usize {
    let limit = u32::MAX - u32::MAX % bound as u32;
    loop {
        let mut bytes = [0; 4];
        random.fill(&mut bytes);
        let drawn = u32::from_be_bytes(bytes);
        if drawn < limit {
            return (drawn % bound as u32) as usize;
        }
    }
}

/// A hello that no browser sends but that looks like one: Chromium's with drawn ciphers of TLS 1.2
/// and some optional extensions left out, all shuffled.
fn randomized(random: &mut dyn Random, alpn: bool) -> Plan {
    let mut plan = Plan::of(&tables::CHROMIUM);
    let first_old = plan.ciphers.iter().position(|cipher| !matches!(cipher, 0x1301..=0x1303 | &GREASE)).unwrap_or(0);
    let old = &mut plan.ciphers[first_old..];
    for last in (1..old.len()).rev() {
        let other = below(random, last + 1);
        old.swap(last, other);
    }
    let keep = plan.ciphers.len() - below(random, 5);
    plan.ciphers.truncate(keep);
    let mut coin = || below(&mut *random, 2) == 0;
    plan.extensions.retain(|extension| match extension {
        Extension::Fixed(5 | 18 | 35, _)
        | Extension::TrustAnchors(_)
        | Extension::EncryptedHello(_)
        | Extension::CompressCertificate(_) => coin(),
        Extension::Alpn => alpn,
        Extension::ApplicationSettings(_) => false,
        Extension::Grease(_)
        | Extension::Fixed(..)
        | Extension::ServerName
        | Extension::Groups(_)
        | Extension::Signatures(_)
        | Extension::DelegatedCredentials(_)
        | Extension::KeyShare(_)
        | Extension::Versions(_)
        | Extension::RecordSizeLimit(_)
        | Extension::Padding => true,
    });
    plan
}
