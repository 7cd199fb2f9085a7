//! Exports in other programs' formats, read back.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::wildcard_enum_match_arm, reason = "a test may stop")]

use culvert_profile::export::{self, Export};
use culvert_profile::node::{Node, Protocol, Tls, Transport};
use culvert_profile::{Format, parse_document, parse_link};
use serde_json::Value;

fn corpus() -> Vec<Node> {
    include_str!("corpus/links.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|case| parse_link(case["input"].as_str().unwrap()).ok())
        .filter(|node| node.unsupported.is_none())
        .collect()
}

/// The node without what the other format has no word for and that changes no connection.
fn comparable(mut node: Node) -> Node {
    node.name.clear();
    node.extra.clear();
    let plain = |tls: &mut Tls, transport: Option<&mut Transport>| {
        if !tls.enabled {
            *tls = Tls::default();
        }
        if let Some(reality) = &mut tls.reality {
            reality.spider_x = None;
            tls.fingerprint.get_or_insert("chrome".to_owned());
        }
        match transport {
            Some(Transport::Tcp { header_type, .. }) if header_type.as_deref() == Some("none") => *header_type = None,
            Some(Transport::Ws { early_data: Some(_), early_data_header, .. }) => {
                early_data_header.get_or_insert("Sec-WebSocket-Protocol".to_owned());
            }
            Some(Transport::Ws { early_data_header, .. }) => *early_data_header = None,
            Some(Transport::Grpc { authority, .. }) => *authority = None,
            _ => {}
        }
    };
    match &mut node.protocol {
        Protocol::Vmess(o) => {
            o.user.uuid_raw = None;
            plain(&mut o.tls, Some(&mut o.transport));
        }
        Protocol::Vless(o) => {
            o.user.uuid_raw = None;
            o.flow = o.flow.take().map(|flow| flow.trim_end_matches("-udp443").to_owned());
            plain(&mut o.tls, Some(&mut o.transport));
        }
        Protocol::Trojan(o) => plain(&mut o.tls, Some(&mut o.transport)),
        Protocol::Http(o) => plain(&mut o.tls, None),
        Protocol::Anytls(o) => plain(&mut o.tls, None),
        _ => {}
    }
    node
}

fn compare(text: &str, format: Format, nodes: &[Node], left_out: &[(usize, String)]) {
    let document = parse_document(text.as_bytes());
    assert_eq!(document.format, format);
    assert_eq!(document.skipped, []);
    let kept: Vec<&Node> = nodes
        .iter()
        .enumerate()
        .filter(|(at, _)| !left_out.iter().any(|(out, _)| out == at))
        .map(|(_, node)| node)
        .collect();
    let by_server = |node: &Node| serde_json::to_string(&comparable(node.clone())).unwrap();
    let (mut found, mut wanted): (Vec<String>, Vec<String>) =
        (document.nodes.iter().map(by_server).collect(), kept.into_iter().map(by_server).collect());
    found.sort();
    wanted.sort();
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), wanted.len());
}

#[test]
fn clash_yaml_reads_back() {
    let nodes = corpus();
    let Export { content, left_out } = export::clash(&nodes);
    assert!(left_out.len() < 30, "{left_out:?}");
    compare(&content, Format::ClashYaml, &nodes, &left_out);
}

#[test]
fn sing_box_json_reads_back() {
    let nodes = corpus();
    let Export { content, left_out } = export::sing_box(&nodes);
    assert!(left_out.len() < 40, "{left_out:?}");
    compare(&content.to_string(), Format::SingBoxJson, &nodes, &left_out);
}

#[test]
fn a_base64_subscription_reads_back_unchanged() {
    let nodes = corpus();
    let document = parse_document(export::base64_subscription(&nodes).as_bytes());
    assert_eq!(document.format, Format::Base64List);
    assert_eq!(document.skipped, []);
    // A name that consists of links or quotes alone would not survive; the corpus has none.
    for (found, wanted) in document.nodes.iter().zip(&nodes) {
        assert_eq!(found, wanted);
    }
    assert_eq!(document.nodes.len(), nodes.len());
}

#[test]
fn other_formats_documents_survive_as_links() {
    for file in ["clash-full.yaml", "singbox.json", "sip008.json", "xray-array-base64.txt", "wireguard.conf"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/subs").join(file);
        for node in parse_document(&std::fs::read(path).unwrap()).nodes {
            let again = parse_link(&export::link(&node)).unwrap();
            assert_eq!(again.identity(), node.identity(), "{file}: {node:?}\n{again:?}");
            assert_eq!(again.name, node.name);
        }
    }
}
