use super::header::fnv1a;
use super::kdf::{Label, kdf, kdf_nonce};
use super::*;
use crate::address::{Destination, Host};
use crate::chunk::{Open, OpenError, Opened, Seal};
use crate::preamble::{self, Preamble};

/// Repeatable bytes that look like nothing in particular.
pub(crate) struct Counting(pub(crate) u8);

impl Random for Counting {
    fn fill(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            self.0 = self.0.wrapping_mul(5).wrapping_add(37);
            *byte = self.0;
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

const ID: [u8; 16] = [0xb8, 0x31, 0x38, 0x1d, 0x63, 0x24, 0x4d, 0x53, 0xad, 0x4f, 0x8c, 0xda, 0x48, 0xb3, 0x08, 0x11];

fn sequence() -> [u8; 16] {
    std::array::from_fn(|i| i as u8)
}

#[test]
fn derivations_match_the_vectors() {
    let user = UserKey::new(&ID);
    assert_eq!(hex(&user.command), "b50d916ac0cec067981af8e5f38a758f");
    assert_eq!(hex(&kdf(Label::AuthId, &[], &user.command)[..16]), "1415ba74ca8b3d041a8f583fb4116315");
    let auth_id = user.auth_id(1_700_000_000, [1, 2, 3, 4]);
    assert_eq!(hex(&auth_id), "4774fe5cc901ea4f81f2159909767a36");
    assert_eq!(user.recognise(&auth_id), Some(1_700_000_000));
    let nonce = [0, 1, 2, 3, 4, 5, 6, 7];
    let path: [&[u8]; 2] = [&auth_id, &nonce];
    assert_eq!(
        hex(&kdf(Label::HeaderLengthKey, &path, &user.command)[..20]),
        "ba1895c9f68aa1427d19bcb3317e56039f33d2c6"
    );
    assert_eq!(hex(&kdf(Label::HeaderKey, &path, &user.command)[..16]), "c550b2c4797ce884ecc9506a980aee42");
    assert_eq!(hex(&kdf_nonce(Label::HeaderNonce, &path, &user.command)), "7ec99ee929b83032c07e787b");
    assert_eq!(hex(&kdf(Label::ChunkLength, &[], &sequence())[..16]), "1dccf11d87f6b6c6ffbaa5b90794383c");
    assert_eq!(fnv1a(b"abc"), 0x1a47_e90b);
    let session = session(Protection::Aes128Gcm, Command::Tcp);
    let (key, _) = Session { key: sequence(), ..session }.response_keys();
    assert_eq!(hex(&key), "be45cb2605bf36bebde684841a28f0fd");
}

#[test]
fn masks_match_the_vector() {
    use sha3::digest::{ExtendableOutput, Update, XofReader};
    let mut shake = sha3::Shake128::default();
    shake.update(&sequence());
    let mut out = [0; 8];
    shake.finalize_xof().read(&mut out);
    assert_eq!(hex(&out), "98481946de85c670");
}

fn session(protection: Protection, command: Command) -> Session {
    let (security, options) = protection.options(command);
    Session::new(&mut Counting(7), security, options, command)
}

fn target(host: &str) -> Destination {
    Destination::new(Host::parse(host).unwrap(), 443)
}

fn request(command: Command, host: &str, now: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let session = session(Protection::Aes128Gcm, command);
    UserKey::new(&ID).seal_request(&session, &target(host), now, &mut Counting(now as u8), &mut out);
    out
}

#[test]
fn a_server_reads_what_a_client_seals() {
    let other = [9; 16];
    let long = "n".repeat(255);
    for (k, host) in ["192.0.2.1", "2001:db8::9", "example.com", long.as_str()].into_iter().enumerate() {
        for (j, command) in [Command::Tcp, Command::Udp, Command::Mux].into_iter().enumerate() {
            let mut server = Server::new(&[other, ID]);
            let sealed = request(command, host, 1000 + (k * 3 + j) as u64);
            for cut in 0..sealed.len() {
                match server.read(&sealed[..cut], 1000).unwrap() {
                    Step::NeedMore(more) => assert!(more > cut && more <= sealed.len()),
                    Step::Request(_) => panic!("whole at {cut} of {}", sealed.len()),
                }
            }
            let mut input = sealed.clone();
            input.extend_from_slice(b"payload");
            let Step::Request(accepted) = server.read(&input, 1000).unwrap() else { panic!("not whole") };
            assert_eq!((accepted.user, accepted.command, accepted.consumed), (1, command, sealed.len()));
            let expected = (command != Command::Mux).then(|| target(host));
            assert_eq!(accepted.destination, expected);
            assert_eq!(server.read(&input, 1001).unwrap_err(), RequestError::Replayed);
        }
    }
}

#[test]
fn clocks_may_differ_by_two_minutes() {
    let sealed = request(Command::Tcp, "a.b", 10_000);
    for (now, skew) in [(10_121, Some(-121)), (9_879, Some(121)), (10_119, None), (9_881, None)] {
        let result = Server::new(&[ID]).read(&sealed, now);
        match skew {
            Some(seconds) => assert_eq!(result.unwrap_err(), RequestError::ClockSkew { seconds }),
            None => assert!(matches!(result, Ok(Step::Request(_)))),
        }
    }
}

#[test]
fn strangers_and_damage_are_refused() {
    let sealed = request(Command::Tcp, "a.b", 50);
    assert_eq!(Server::new(&[[1; 16]]).read(&sealed, 50).unwrap_err(), RequestError::UnknownUser);
    for place in 16..sealed.len() {
        let mut damaged = sealed.clone();
        damaged[place] ^= 1;
        assert_eq!(
            Server::new(&[ID]).read(&damaged, 50).unwrap_err(),
            RequestError::Header(HeaderError::Forged),
            "at {place}"
        );
    }
}

fn all_formats() -> Vec<Session> {
    let mut sessions = Vec::new();
    for security in [Security::Aes128Gcm, Security::ChaCha20Poly1305, Security::None] {
        for options in [0x01, 0x05, 0x0d, 0x15, 0x1d] {
            for command in [Command::Tcp, Command::Udp] {
                sessions.push(Session::new(&mut Counting(options), security, Options(options), command));
            }
        }
    }
    sessions
}

fn seal_all(seal: &mut dyn Seal, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut wire = Vec::new();
    for payload in payloads {
        let mut chunk = vec![0; seal.head() + payload.len() + seal.tail()];
        chunk[seal.head()..seal.head() + payload.len()].copy_from_slice(payload);
        let used = seal.seal(&mut chunk, payload.len(), &mut Counting(3));
        wire.extend_from_slice(&chunk[..used]);
    }
    seal.finish(&mut wire);
    wire
}

/// Opens everything in `wire`, giving `open` no more bytes than it asks for.
fn open_all(open: &mut dyn Open, mut wire: &mut [u8]) -> Result<Vec<Vec<u8>>, OpenError> {
    let mut payloads = Vec::new();
    let mut given = 0;
    loop {
        match open.open(&mut wire[..given])? {
            Opened::NeedMore(more) => {
                assert!(more > given);
                if more > wire.len() {
                    return open.ended(wire.len()).map(|()| payloads);
                }
                given = more;
            }
            Opened::Chunk { consumed, payload } => {
                if !payload.is_empty() {
                    payloads.push(wire[payload].to_vec());
                }
                wire = &mut wire[consumed..];
                given = 0;
            }
            Opened::End { consumed } => {
                assert_eq!(consumed, wire.len());
                return Ok(payloads);
            }
        }
    }
}

#[test]
fn every_body_format_opens_what_it_seals_both_ways() {
    let payloads: Vec<Vec<u8>> =
        [1, 2, 100, MAX_PAYLOAD, 17, 1400].iter().map(|&n| (0..n).map(|i| (i * 7) as u8).collect()).collect();
    for session in all_formats() {
        let mut wire = seal_all(&mut session.request_seal(), &payloads);
        assert_eq!(open_all(&mut session.request_open(), &mut wire).unwrap(), payloads, "{session:?}");
        let mut wire = Vec::new();
        session.response_head(&mut wire);
        wire.extend_from_slice(&seal_all(&mut session.response_seal(), &payloads));
        assert_eq!(open_all(&mut session.response_open(), &mut wire).unwrap(), payloads, "{session:?}");
    }
}

#[test]
fn chunks_stay_below_the_strictest_peers_limit() {
    for session in all_formats() {
        let mut seal = session.request_seal();
        let mut chunk = vec![0; seal.head() + MAX_PAYLOAD + seal.tail()];
        let greatest = (0..500).map(|_| seal.seal(&mut chunk, MAX_PAYLOAD, &mut Counting(1))).max().unwrap();
        assert!(greatest - seal.head() <= 16_384, "{session:?}: {greatest}");
    }
}

#[test]
fn the_chunk_counter_wraps() {
    let session = session(Protection::Aes128Gcm, Command::Tcp);
    let (mut seal, mut open) = (session.request_seal(), session.request_open());
    let mut chunk = vec![0; seal.head() + 1 + seal.tail()];
    for i in 0..65_600u32 {
        let head = seal.head();
        chunk[head] = i as u8;
        let used = seal.seal(&mut chunk, 1, &mut Counting(1));
        let Opened::Chunk { consumed, payload } = open.open(&mut chunk[..used]).unwrap() else { panic!("at {i}") };
        assert_eq!((consumed, chunk[payload][0]), (used, i as u8));
    }
}

#[test]
fn a_damaged_chunk_or_a_cut_is_an_error() {
    let session = session(Protection::ChaCha20Poly1305, Command::Tcp);
    let wire = seal_all(&mut session.request_seal(), &[vec![1; 50]]);
    let mut damaged = wire.clone();
    damaged[10] ^= 1;
    assert!(matches!(open_all(&mut session.request_open(), &mut damaged), Err(OpenError::Authentication(_))));
    let mut cut = wire[..40].to_vec();
    assert!(matches!(open_all(&mut session.request_open(), &mut cut), Err(OpenError::Malformed(_))));
}

#[test]
fn a_bare_end_is_an_end_too() {
    let session = session(Protection::Aes128Gcm, Command::Tcp);
    let mut seal = session.request_seal();
    let mut chunk = vec![5; seal.head() + 3 + seal.tail()];
    let used = seal.seal(&mut chunk, 3, &mut Counting(1));
    assert_eq!(open_all(&mut session.request_open(), &mut chunk[..used]).unwrap(), [vec![5; 3]]);
}

#[test]
fn answers_of_other_requests_are_refused() {
    let session = session(Protection::Aes128Gcm, Command::Tcp);
    let mut wire = Vec::new();
    let mut other = session.clone();
    other.answer ^= 1;
    other.response_head(&mut wire);
    assert!(matches!(session.response_preamble().read(&wire), Err(OpenError::Malformed(_))));
    let mut wire = Vec::new();
    session.response_head(&mut wire);
    assert_eq!(session.response_preamble().read(&wire), Ok(preamble::Step::Done(wire.len())));
    assert!(matches!(session.response_open().ended(0), Err(OpenError::Unanswered(_))));
    wire[0] ^= 1;
    assert!(matches!(session.response_preamble().read(&wire), Err(OpenError::Authentication(_))));
}

#[test]
fn padding_without_its_mask_is_refused() {
    let (security, command) = (Security::Aes128Gcm, Command::Tcp);
    for (options, fine) in [(0x09, false), (0x00, false), (0x01, true), (0x0d, true), (0x1d, true)] {
        let session = Session::new(&mut Counting(1), security, Options(options), command);
        let mut out = Vec::new();
        UserKey::new(&ID).seal_request(&session, &target("a.b"), 5, &mut Counting(2), &mut out);
        assert_eq!(Server::new(&[ID]).read(&out, 5).is_ok(), fine, "{options:#x}");
    }
}
