//! Input that means harm: no panic, no secret in a message, bounded time and memory.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop")]

use std::time::{Duration, Instant};

use culvert_profile::{deeplink, document, export, parse_document, parse_link, redact, report};
use proptest::prelude::*;

/// Pieces that parsers look for, so that random texts get past the first check.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "vmess://",
        "vless://",
        "ss://",
        "trojan://",
        "hysteria2://",
        "tuic://",
        "anytls://",
        "socks5://",
        "wg://",
        "https://",
        "ssr://",
        "foo://",
        "eyJ2IjoiMiIsImFkZCI6ImEifQ==",
        "YWVzLTI1Ni1nY206cHc",
        "0d4170f2-4709-4533-a04d-9cc882af2d21",
        "@",
        "example.com",
        "[2001:db8::1]",
        ":443",
        ":0",
        "?",
        "&",
        "=",
        "#",
        "%",
        "%00",
        "%25",
        "/",
        "type=ws",
        "path=%2F%3Fed%3D1",
        "security=reality",
        "pbk=",
        "extra=%7B%7D",
        "plugin=obfs-local;obfs=http\\;",
        "\n",
        "\r",
        " ",
        "\t",
        "proxies:\n",
        "- {name: a, ",
        "type: ss, ",
        "*a",
        "&a ",
        "<<: ",
        "!<str> ",
        "}",
        "{",
        "[",
        "]",
        "\"outbounds\":[",
        "\"type\":\"vless\",",
        "\"protocol\":",
        "//",
        "/*",
        "*/",
        "\u{feff}",
        "\u{3000}",
        "香港",
        "\u{200d}",
        "[Interface]\n",
        "PrivateKey=",
        "<html><title>",
        "base64:",
        "remarks=",
        "= vmess,",
        "\\",
    ];
    prop_oneof![
        4 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => "[A-Za-z0-9+/=_-]{0,40}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..40).prop_map(|pieces| pieces.concat())
}

/// A link of the corpus with some pieces put in, cut out or put in place of others.
fn mutated() -> impl Strategy<Value = String> {
    let links: Vec<String> = include_str!("corpus/links.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["input"].as_str().unwrap().to_owned())
        .collect();
    let change = (any::<proptest::sample::Index>(), 0..6usize, piece());
    (proptest::sample::select(links), proptest::collection::vec(change, 0..5)).prop_map(|(mut link, changes)| {
        for (place, cut, piece) in changes {
            let bounds: Vec<usize> = link.char_indices().map(|(at, _)| at).chain([link.len()]).collect();
            let from = place.index(bounds.len());
            let to = (from + cut).min(bounds.len() - 1);
            link.replace_range(bounds[from]..bounds[to], &piece);
        }
        link
    })
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn no_text_panics(text in text()) {
        let document = parse_document(text.as_bytes());
        let _ = report(&document).to_string();
        let _ = export::clash(&document.nodes);
        let _ = export::sing_box(&document.nodes);
        let _ = (redact(&text), deeplink::parse_deep_link(&text));
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = parse_document(&bytes);
    }

    #[test]
    fn what_parses_survives_its_export(text in prop_oneof![text(), mutated(), mutated()]) {
        let mut nodes = parse_document(text.as_bytes()).nodes;
        nodes.extend(parse_link(&text));
        for node in nodes {
            let link = export::link(&node);
            let again = parse_link(&link);
            prop_assert!(again.is_ok(), "{link}: {again:?}");
            prop_assert_eq!(again, Ok(node), "{}", link);
        }
    }

    #[test]
    fn names_and_passwords_of_any_kind_come_back(name in "\\PC{0,20}", password in "\\PC{1,20}", path in "\\PC{0,10}") {
        use culvert_profile::node::{Node, Protocol, Tls, Transport, Trojan};
        let transport = Transport::Ws { host: None, path: Some(format!("/{}", path.replace('?', ""))), early_data: Some(7), early_data_header: None };
        let protocol = Protocol::Trojan(Trojan { password: password.as_str().into(), tls: Tls { enabled: true, ..Tls::default() }, transport });
        let node = Node::new(name.trim(), "a.example.com", 443, protocol);
        let again = parse_link(&export::link(&node)).unwrap();
        prop_assert_eq!(&again.protocol, &node.protocol);
        let yaml = export::clash(std::slice::from_ref(&node)).content;
        let read = parse_document(yaml.as_bytes());
        prop_assert_eq!(read.nodes.len(), 1, "{}", yaml);
        let Protocol::Trojan(trojan) = &read.nodes[0].protocol else { panic!() };
        prop_assert_eq!(trojan.password.expose(), &password);
    }

    #[test]
    fn a_password_is_never_shown(password in "[A-Za-z0-9#@:/?%+=]{12,24}") {
        for link in [format!("trojan://{password}@"), format!("vless://{password}@a.example.com:99999#x"), format!("ss://{password}"), format!("tuic://{password}@a.example.com:1")] {
            let document = parse_document(link.as_bytes());
            let shown = format!("{:?}", document.skipped);
            for part in password.split(['#', '@', ':', '/', '?', '%', '=', '+']).filter(|part| part.len() > 5) {
                prop_assert!(!shown.contains(part), "{shown} shows {part} of {link}");
            }
        }
    }
}

/// Time for `input`; the limit of 50 ms per 64 KiB is for release builds, a debug build gets ten times as much.
fn within_limit(what: &str, input: &[u8]) {
    let start = Instant::now();
    let document = parse_document(input);
    let took = start.elapsed();
    let blocks = u32::try_from(input.len() / (64 << 10) + 1).unwrap();
    let limit = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 50 }) * blocks;
    println!(
        "{what}: {} bytes, {took:?}, {} nodes, {} skipped",
        input.len(),
        document.nodes.len(),
        document.skipped.len()
    );
    assert!(took < limit, "{what} took {took:?}, the limit is {limit:?}");
    assert!(document.skipped.len() <= document::MOST_SKIPPED);
}

#[test]
fn repeated_pieces_take_linear_time() {
    let size = 1 << 20;
    for piece in [
        "://",
        "vmess://",
        "ss://",
        "ss://@",
        "vless://a@",
        "a",
        "[",
        "{",
        "{\"a\":",
        "- ",
        "#",
        "# vless://",
        "&a [",
        "%",
        "?",
        "&",
        "\n",
        "\r",
        "\"",
        "proxies:\n",
        "? ",
        ": ",
        "!a ",
        "*a ",
        "vmess://e\nAAAA\n",
        "AAAA=",
        "<html>",
        "<title",
        "a:\n ",
        "- - ",
        "{a: ",
        "/*",
        "//",
        "ss://a#%",
        "😀",
        "|\n ",
        "trojan://p@a.example.com:1?a=b&",
        "https://a/",
        "vless://x#vless://x ",
    ] {
        let mut text = piece.repeat(size / piece.len());
        within_limit(piece, text.as_bytes());
        text.insert_str(0, "proxies:\n- ");
        within_limit(&format!("proxies: {piece}"), text.as_bytes());
        let json = format!("{{\"outbounds\": [{}", &text[11..]);
        within_limit(&format!("outbounds: {piece}"), json.as_bytes());
    }
}

#[test]
fn great_documents_are_refused_or_bounded() {
    let lines = vec![b'\n'; 10_000_000];
    within_limit("ten million empty lines", &lines);
    let large = vec![b'a'; document::LARGEST_DOCUMENT + 1];
    let start = Instant::now();
    let refused = parse_document(&large);
    assert_eq!(refused.skipped[0].kind.word(), "too_large");
    assert!(start.elapsed() < Duration::from_millis(100));
    let many = "ss://YWVzLTI1Ni1nY206cHc@b.example.com:8388\n".repeat(document::MOST_NODES + 5);
    let document = parse_document(many.as_bytes());
    assert_eq!((document.nodes.len(), document.skipped.len()), (document::MOST_NODES, 1));
}

#[test]
fn twenty_thousand_links() {
    let mut text = String::new();
    for n in 0..20_000 {
        text.push_str(&match n % 3 {
            0 => format!("vless://0d4170f2-4709-4533-a04d-9cc882af2d21@n{n}.example.com:443?encryption=none&flow=xtls-rprx-vision&security=reality&sni=www.example.com&fp=chrome&pbk=a-jjUxuvZ1LCDtYiRZtcL6BQ-9cU9sUBapsdbTHEs6w&sid=a436dc1d&spx=%2F&type=tcp&headerType=none#Node%20{n}\n"),
            1 => format!("ss://YWVzLTI1Ni1nY206cHc@n{n}.example.com:8388#Node%20{n}\n"),
            _ => "vmess://eyJ2IjoiMiIsInBzIjoidm0gdW5wYWRkZWQiLCJhZGQiOiJ2bS5leGFtcGxlLmNvbSIsInBvcnQiOiI0NDMiLCJpZCI6IjNlYThjZTZhLTI5N2EtNGZkZS04NzFkLTRkOTVhMzk2NTZlMSIsImFpZCI6IjAiLCJzY3kiOiJhdXRvIiwibmV0Ijoid3MiLCJ0eXBlIjoibm9uZSIsImhvc3QiOiJjZG4uZXhhbXBsZS5jb20iLCJwYXRoIjoiL3dzIiwidGxzIjoiIiwic25pIjoiIiwiYWxwbiI6IiIsImZwIjoiIn0\n".to_owned(),
        });
    }
    let start = Instant::now();
    let document = parse_document(text.as_bytes());
    let took = start.elapsed();
    println!("20,000 links: {took:?}");
    assert_eq!((document.nodes.len(), document.skipped.len()), (20_000, 0));
    assert!(took < Duration::from_millis(if cfg!(debug_assertions) { 3000 } else { 300 }), "{took:?}");
}
