use proptest::prelude::*;

use super::*;

fn prefix() -> impl Strategy<Value = Prefix> {
    prop_oneof![
        (any::<[u8; 4]>(), 0_u8..=32).prop_map(|(address, bits)| (IpAddr::from(address), bits)),
        (any::<[u8; 16]>(), 0_u8..=128).prop_map(|(address, bits)| (IpAddr::from(address), bits)),
    ]
}

fn open() -> impl Strategy<Value = Open> {
    (
        1280_u16..,
        1..=MAX_QUEUES,
        prop::collection::vec(prefix(), 0..=MAX_ADDRESSES),
        prop::collection::vec(prefix(), 0..=MAX_PREFIXES),
        any::<bool>(),
        prop::option::of(prefix()),
    )
        .prop_map(|(mtu, queues, addresses, excluded, local_direct, resolver)| Open {
            mtu,
            queues,
            addresses,
            excluded,
            local_direct,
            resolver: resolver.map(|(address, _)| address),
        })
}

proptest! {
    #[test]
    fn requests_come_back(open in open(), allowed in prop::collection::vec(prefix(), 0..=MAX_PREFIXES)) {
        for request in [
            Request::Open(open),
            Request::Close,
            Request::Protect,
            Request::ArmKillSwitch(allowed),
            Request::ReleaseKillSwitch,
            Request::Report,
        ] {
            let bytes = request.encode();
            prop_assert!(bytes.len() <= MAX_MESSAGE);
            prop_assert_eq!(Request::decode(&bytes), Ok(request));
            prop_assert!(Request::decode(&bytes[..bytes.len() - 1]).is_err());
            let longer = [bytes.as_slice(), &[0]].concat();
            prop_assert!(Request::decode(&longer).is_err());
        }
    }

    #[test]
    fn answers_come_back(index: u32, mtu: u16, flags: [bool; 4], reason in ".{0,300}") {
        let [checksum, tcp_segmentation, udp_segmentation, names_guarded] = flags;
        let opened = Opened { index, mtu, checksum, tcp_segmentation, udp_segmentation, names_guarded };
        let report = Report { open: checksum, kill_switch: KillSwitch::Blocking };
        for answer in [Answer::Opened(opened), Answer::Done, Answer::Report(report)] {
            prop_assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
        let failed = Answer::Failed { reason: reason.clone() };
        match Answer::decode(&failed.encode()) {
            Ok(Answer::Failed { reason: back }) => prop_assert!(reason.starts_with(&back)),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn garbage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..600), valid_start: bool) {
        if valid_start && bytes.len() > 2 {
            bytes[0] = VERSION;
            bytes[1] %= 8;
        }
        let _ = Request::decode(&bytes);
        let _ = Answer::decode(&bytes);
    }
}

#[test]
fn another_version_is_named() {
    assert_eq!(Request::decode(&[9, 2]), Err(MessageError::Version(9)));
    assert!(Request::decode(&vec![VERSION; MAX_MESSAGE + 1]).is_err());
}
