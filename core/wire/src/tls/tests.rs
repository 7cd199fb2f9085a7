use std::collections::BTreeSet;

use super::codec::{Reader, extensions};
use super::fingerprint::Browser;
use super::hello::Hello;
use crate::random::Random;
use crate::random::counted::Counted;

/// A ClientHello taken apart, by this test's own reading of RFC 8446 §4.1.2.
struct Parsed {
    ciphers: Vec<u16>,
    extensions: Vec<(u16, Vec<u8>)>,
}

fn grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

fn numbers(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
}

impl Parsed {
    fn read(message: &[u8]) -> Self {
        let mut reader = Reader::new(message);
        assert_eq!(reader.u8().unwrap(), 1);
        let mut body = Reader::new(reader.vector(3).unwrap());
        reader.end().unwrap();
        assert_eq!(body.u16().unwrap(), 0x0303);
        body.take(32).unwrap();
        assert_eq!(body.vector(1).unwrap().len(), 32);
        let ciphers = numbers(body.vector(2).unwrap());
        assert_eq!(body.vector(1).unwrap(), [0]);
        let block = body.vector(2).unwrap();
        body.end().unwrap();
        let extensions = extensions(block).unwrap().into_iter().map(|(kind, body)| (kind, body.to_vec())).collect();
        Self { ciphers, extensions }
    }

    fn body(&self, kind: u16) -> &[u8] {
        &self.extensions.iter().find(|(other, _)| *other == kind).unwrap().1
    }

    fn order(&self) -> Vec<u16> {
        self.extensions.iter().map(|(kind, _)| *kind).collect()
    }

    /// JA4 as FoxIO describes it.
    fn ja4(&self) -> String {
        let hash = |text: &str| {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
            digest.as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let hex = |values: &[u16]| values.iter().map(|value| format!("{value:04x}")).collect::<Vec<_>>().join(",");
        let mut ciphers: Vec<u16> = self.ciphers.iter().copied().filter(|value| !grease(*value)).collect();
        ciphers.sort_unstable();
        let mut kinds: Vec<u16> = self.order().into_iter().filter(|value| !grease(*value)).collect();
        let count = kinds.len();
        let named = if kinds.contains(&0) { 'd' } else { 'i' };
        let alpn = if kinds.contains(&16) { &self.body(16)[3..3 + usize::from(self.body(16)[2])] } else { b"00" };
        let ends = format!("{}{}", char::from(alpn[0]), char::from(alpn[alpn.len() - 1]));
        kinds.retain(|kind| !matches!(kind, 0 | 16));
        kinds.sort_unstable();
        let schemes: Vec<u16> = numbers(&self.body(13)[2..]).into_iter().filter(|value| !grease(*value)).collect();
        format!(
            "t13{named}{:02}{count:02}{ends}_{}_{}",
            ciphers.len(),
            hash(&hex(&ciphers)),
            hash(&format!("{}_{}", hex(&kinds), hex(&schemes)))
        )
    }
}

fn hello(browser: Browser, seed: u64) -> Parsed {
    Parsed::read(&Hello::build(browser, Some("www.example.com"), None, &mut Counted::new(seed)).unwrap().message)
}

const CAPTURES: [&[u8]; 3] = [
    include_bytes!("testdata/chromium-156-1.bin"),
    include_bytes!("testdata/chromium-156-2.bin"),
    include_bytes!("testdata/chromium-156-3.bin"),
];

#[test]
fn chrome_equals_the_recorded_browser() {
    for capture in CAPTURES {
        let real = Parsed::read(&capture[5..]);
        assert_eq!(real.ja4(), "t13d1517h2_8daaf6152771_cb7bf5808d99");
        for seed in 0..40 {
            let ours = hello(Browser::Chrome, seed);
            assert_eq!(ours.ja4(), real.ja4());
            let strip =
                |values: &[u16]| values.iter().map(|v| if grease(*v) { 0x0a0a } else { *v }).collect::<Vec<_>>();
            assert_eq!(strip(&ours.ciphers), strip(&real.ciphers), "ciphers in order");
            let (kinds, real_kinds) = (ours.order(), real.order());
            assert_eq!(kinds.iter().collect::<BTreeSet<_>>().len(), real_kinds.len());
            assert!(grease(kinds[0]) && grease(kinds[kinds.len() - 1]) && kinds[0] != kinds[kinds.len() - 1]);
            assert!(kinds[1..kinds.len() - 1].iter().all(|kind| !grease(*kind)));
            assert!(ours.extensions[0].1.is_empty() && ours.extensions[kinds.len() - 1].1 == [0]);
            for (kind, body) in real.extensions.iter().filter(|(kind, _)| !grease(*kind)) {
                let mine = ours.body(*kind);
                match kind {
                    // Lists that hold GREASE.
                    10 | 13 => assert_eq!(strip(&numbers(&mine[2..])), strip(&numbers(&body[2..]))),
                    43 => assert_eq!(strip(&numbers(&mine[1..])), strip(&numbers(&body[1..]))),
                    51 => {
                        assert_eq!(mine.len(), body.len());
                        assert_eq!(mine[2..4], ours.body(10)[2..4], "GREASE of the share and of the groups");
                        assert_eq!((&mine[4..11], &mine[1227..1231]), (&body[4..11], &body[1227..1231]));
                    }
                    0xfe0d => {
                        assert_eq!((&mine[..5], &mine[6..8]), (&body[..5], &body[6..8]));
                        assert!([186, 218, 250, 282].contains(&mine.len()));
                    }
                    _ => assert_eq!(mine, body, "extension {kind}"),
                }
            }
        }
    }
}

#[test]
fn chrome_shuffles_and_the_others_do_not() {
    let strip = |parsed: &Parsed| parsed.order().into_iter().filter(|kind| !grease(*kind)).collect::<Vec<_>>();
    let orders: BTreeSet<_> = (0..30).map(|seed| strip(&hello(Browser::Chrome, seed))).collect();
    assert_eq!(orders.len(), 30);
    for browser in [Browser::Firefox, Browser::Safari] {
        let orders: BTreeSet<_> = (0..10).map(|seed| strip(&hello(browser, seed))).collect();
        assert_eq!(orders.len(), 1, "{browser:?}");
    }
}

#[test]
fn other_browsers_have_their_published_ja4() {
    assert_eq!(hello(Browser::Firefox, 1).ja4(), "t13d1715h2_5b57614c22b0_a54fffd0eb61");
    assert_eq!(hello(Browser::Safari, 1).ja4(), "t13d2013h2_a09f3c656075_7f0f34a4126d");
    assert_eq!(hello(Browser::Edge, 1).ja4(), hello(Browser::Android, 1).ja4());
}

#[test]
fn a_hello_repeats_with_its_randomness_and_only_then() {
    let build = |seed| Hello::build(Browser::Chrome, None, None, &mut Counted::new(seed)).unwrap().message;
    assert_eq!(build(7), build(7));
    assert_ne!(build(7), build(8));
    assert!(!Parsed::read(&build(7)).order().contains(&0), "no name for an address");
}

#[test]
fn randomized_hellos_vary_and_stay_usable() {
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let parsed = hello(Browser::Randomized, seed);
        assert!(parsed.body(51).len() > 1200 && parsed.ciphers.len() >= 12 && parsed.order().contains(&16));
        seen.insert(parsed.ja4());
        assert!(!hello(Browser::RandomizedNoAlpn, seed).order().contains(&16));
    }
    assert!(seen.len() > 20, "{}", seen.len());
}

#[test]
fn websocket_replaces_alpn() {
    let only = [b"http/1.1".to_vec()];
    let message = Hello::build(Browser::Chrome, Some("a.test"), Some(&only), &mut Counted::new(3)).unwrap().message;
    let parsed = Parsed::read(&message);
    assert_eq!(parsed.body(16), b"\0\x09\x08http/1.1");
    assert!(parsed.ja4().starts_with("t13d1516h1"), "{}", parsed.ja4());
}

#[test]
fn names_of_share_links() {
    assert_eq!(Browser::from_name(""), Some(Browser::Chrome));
    assert_eq!(Browser::from_name("HelloFirefox_120"), Some(Browser::Firefox));
    assert_eq!(Browser::from_name("randomizednoalpn"), Some(Browser::RandomizedNoAlpn));
    assert_eq!(Browser::from_name("netscape"), None);
}

#[test]
fn hostile_input_is_refused_without_a_panic() {
    use super::{ClientConfig, Handshake, ServerAuth};
    struct Nobody;
    impl ServerAuth for Nobody {
        fn check_chain(&mut self, _: &super::Evidence<'_>) -> Result<(), super::CertificateError> {
            Ok(())
        }
        fn check_signature(
            &mut self,
            _: u16,
            _: &[u16],
            _: &[u8],
            _: &[u8],
            _: &[u8],
        ) -> Result<(), super::CertificateError> {
            Ok(())
        }
    }
    let mut random = Counted::new(5);
    for round in 0..2000usize {
        let config = ClientConfig { browser: Browser::Firefox, server_name: None, alpn: None, sessions: None };
        let mut handshake = Handshake::start(config, Box::new(Nobody), Box::new(Counted::new(1))).unwrap();
        let mut bytes = vec![0; 40 + round % 200];
        random.fill(&mut bytes);
        let length = (bytes.len() - 5) as u16;
        bytes[..3].copy_from_slice(&[22, 3, 3]);
        bytes[3..5].copy_from_slice(&length.to_be_bytes());
        if round % 2 == 0 {
            bytes[5..9].copy_from_slice(&[2, 0, 0, (length - 4) as u8]);
        }
        let _ = handshake.receive(&mut bytes);
    }
}
