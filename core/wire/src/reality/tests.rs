use super::*;
use crate::chunk::{Open, Opened, Seal};
use crate::random::counted::Counted;
use crate::tls::{
    Browser, CertificateError, ClientConfig, ClientHello, Evidence, Handshake, Progress, ServerAuth, TlsError,
};

const PRIVATE: [u8; 32] = [0x41; 32];
const SHORT_ID: [u8; 8] = [0x12, 0x34, 0, 0, 0, 0, 0, 0];

/// A browser that trusts nobody.
struct Distrust;

impl ServerAuth for Distrust {
    fn check_chain(&mut self, _: &Evidence<'_>) -> Result<(), CertificateError> {
        Err(CertificateError::Untrusted("unknown issuer".into()))
    }

    fn check_signature(&mut self, _: u16, _: &[u16], _: &[u8], _: &[u8], _: &[u8]) -> Result<(), CertificateError> {
        Err(CertificateError::Signature)
    }
}

fn server() -> ServerOptions {
    ServerOptions::new(PRIVATE, vec![SHORT_ID], vec!["site.test".into()], [26, 3, 27])
}

fn start(options: Options, name: &str, browser: Browser) -> (Handshake, Verdict, Vec<u8>) {
    let auth = RealityAuth::new(options, 1_800_000_000, Box::new(Distrust));
    let verdict = auth.verdict();
    let config = ClientConfig { browser, server_name: Some(name.into()), alpn: None, sessions: None };
    let mut handshake = Handshake::start(config, Box::new(auth), Box::new(Counted::new(9))).unwrap();
    let hello = handshake.take_output();
    (handshake, verdict, hello)
}

fn options(short_id: &str) -> Options {
    Options::new(&server().public_key().unwrap(), short_id, None).unwrap()
}

fn recognised(record: &[u8]) -> Option<Recognised> {
    server().recognise(&ClientHello::parse(&record[5..]).unwrap())
}

fn drive(handshake: &mut Handshake, mut input: Vec<u8>) -> Result<bool, TlsError> {
    let mut at = 0;
    loop {
        match handshake.receive(&mut input[at..])? {
            Progress::NeedMore(_) => return Ok(false),
            Progress::Consumed(count) => at += count,
            Progress::Done(count) => {
                assert_eq!(at + count, input.len());
                return Ok(true);
            }
        }
    }
}

#[test]
fn a_session_is_made_and_carries_data() {
    for browser in [Browser::Chrome, Browser::Firefox, Browser::Safari, Browser::Randomized] {
        let (mut client, verdict, record) = start(options("1234"), "site.test", browser);
        let hello = ClientHello::parse(&record[5..]).unwrap();
        let known = server().recognise(&hello).unwrap();
        assert_eq!((known.unix_seconds, known.version), (1_800_000_000, VERSION));
        let mut serving = answer(&hello, &known, &mut Counted::new(77)).unwrap();
        assert!(!verdict.recognised());
        assert!(drive(&mut client, serving.take_output()).unwrap());
        assert!(verdict.recognised() && !verdict.real_site());
        let mut finish = client.take_output();
        let mut at = 0;
        loop {
            match serving.receive(&mut finish[at..]).unwrap() {
                Progress::NeedMore(_) => panic!("the client's flight is cut short"),
                Progress::Consumed(count) => at += count,
                Progress::Done(count) => break assert_eq!(at + count, finish.len()),
            }
        }
        let mut established = client.finish().unwrap();
        let (mut server_seal, mut server_open) = serving.finish().unwrap();
        for (seal, open) in [
            (&mut established.seal as &mut dyn Seal, &mut server_open as &mut dyn Open),
            (&mut server_seal, &mut established.open),
        ] {
            for length in [1usize, 100, 16384] {
                let mut chunk = vec![0; 5 + length + seal.tail()];
                chunk[5..5 + length].fill(7);
                let sealed = seal.seal(&mut chunk, length, &mut Counted::new(0));
                chunk.truncate(sealed);
                assert_eq!(open.open(&mut chunk.clone()[..sealed - 1]).unwrap(), Opened::NeedMore(sealed));
                let Opened::Chunk { consumed, payload } = open.open(&mut chunk).unwrap() else { panic!() };
                assert_eq!((consumed, payload.len()), (sealed, length));
                assert!(chunk[payload].iter().all(|byte| *byte == 7));
            }
            let mut end = Vec::new();
            seal.finish(&mut end);
            assert_eq!(open.open(&mut end).unwrap(), Opened::End { consumed: 24 });
        }
    }
}

#[test]
fn strangers_are_not_recognised() {
    assert!(recognised(&start(options("1234"), "site.test", Browser::Chrome).2).is_some());
    assert!(recognised(&start(options("12"), "site.test", Browser::Chrome).2).is_none(), "short id");
    assert!(recognised(&start(options("1234"), "other.test", Browser::Chrome).2).is_none(), "name");
    let old = options("1234").with_version([1, 8, 1]);
    assert!(recognised(&start(old, "site.test", Browser::Chrome).2).is_none(), "version");
    let wrong = Options::new(&[9; 32], "1234", None).unwrap();
    assert!(recognised(&start(wrong, "site.test", Browser::Chrome).2).is_none(), "key");
    let mut changed = start(options("1234"), "site.test", Browser::Chrome).2;
    let last = changed.len() - 1;
    changed[last] ^= 1;
    assert!(recognised(&changed).is_none(), "a changed hello");
}

#[test]
fn a_server_without_the_key_is_refused() {
    let (mut client, verdict, record) = start(options("1234"), "site.test", Browser::Chrome);
    let hello = ClientHello::parse(&record[5..]).unwrap();
    // Someone in the middle who answers with a REALITY-like certificate but has another key.
    let other = ServerOptions::new([0x42; 32], vec![SHORT_ID], vec!["site.test".into()], [0; 3]);
    assert!(other.recognise(&hello).is_none());
    let forged = Recognised { auth_key: zeroize::Zeroizing::new([1; 32]), unix_seconds: 0, version: [0; 3] };
    let mut serving = answer(&hello, &forged, &mut Counted::new(77)).unwrap();
    assert!(matches!(drive(&mut client, serving.take_output()), Err(TlsError::Certificate(_))));
    assert!(!verdict.recognised() && !verdict.real_site());
}

#[test]
fn a_missing_mldsa_signature_is_no_proof() {
    let demanding = Options::new(&server().public_key().unwrap(), "1234", Some(vec![0; 1952])).unwrap();
    let (mut client, verdict, record) = start(demanding, "site.test", Browser::Chrome);
    let hello = ClientHello::parse(&record[5..]).unwrap();
    let mut serving = answer(&hello, &server().recognise(&hello).unwrap(), &mut Counted::new(77)).unwrap();
    assert!(drive(&mut client, serving.take_output()).is_err());
    assert!(!verdict.recognised());
}

#[test]
fn bad_options_are_refused() {
    assert_eq!(Options::new(&[0; 31], "", None).unwrap_err(), OptionError::PublicKey);
    for id in ["1", "xx", "001122334455667788"] {
        assert_eq!(Options::new(&[0; 32], id, None).unwrap_err(), OptionError::ShortId);
    }
    assert_eq!(Options::new(&[0; 32], "", Some(vec![0; 9])).unwrap_err(), OptionError::Mldsa65Key);
    assert!(!format!("{:?}", Options::new(&[0x5a; 32], "abcd", None).unwrap()).contains("90"));
}

#[test]
fn certificates_are_read_back_and_rubbish_is_not() {
    let der = certificate::build(&[3; 32], &[4; 64]);
    let leaf = certificate::parse(&der).unwrap();
    assert_eq!((leaf.public_key, leaf.signature, leaf.first_extension), (&[3; 32], &[4u8; 64][..], None));
    for cut in 0..der.len() {
        assert_eq!(certificate::parse(&der[..cut]), None);
    }
}
