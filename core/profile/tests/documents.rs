//! Every document of the corpus, and documents as they arrive in the wild.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop")]

use std::path::PathBuf;

use culvert_profile::{Document, ErrorKind, Format, parse_document, report};
use serde_json::Value;

fn subs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/subs")
}

fn check(file: &str, wanted: &Value) -> Result<(), String> {
    let document = parse_document(&std::fs::read(subs().join(file)).unwrap());
    let found = report(&document);
    if found["format"] != wanted["format"] {
        return Err(format!("format {} instead of {}: {:?}", found["format"], wanted["format"], document.skipped));
    }
    let nodes: Vec<&Value> =
        found["nodes"].as_array().unwrap().iter().filter(|node| node.get("unsupported").is_none()).collect();
    let wanted_nodes = wanted["nodes"].as_array().unwrap();
    if nodes.len() != wanted_nodes.len() {
        return Err(format!("{} nodes instead of {}: {:?}", nodes.len(), wanted_nodes.len(), document.skipped));
    }
    for (node, wanted) in nodes.iter().zip(wanted_nodes) {
        for (key, value) in wanted.as_object().unwrap() {
            if &node[key] != value {
                return Err(format!("{key}: {} instead of {value}", node[key]));
            }
        }
    }
    let unsupported = document
        .nodes
        .iter()
        .filter_map(|node| Some((node.unsupported_kind?, format!("{} {}", node.name, node.unsupported.as_deref()?))));
    let mut skipped: Vec<(ErrorKind, String)> = document
        .skipped
        .iter()
        .map(|s| (s.kind, format!("line {} {} {}", s.line.unwrap_or(0), s.input_redacted, s.reason)))
        .chain(unsupported)
        .collect();
    for wanted in wanted["skipped"].as_array().unwrap() {
        let (kind, hint) = (wanted["reason"].as_str().unwrap(), wanted["hint"].as_str().unwrap());
        match skipped.iter().position(|(found, text)| found.word() == kind && text.contains(hint)) {
            Some(at) => drop(skipped.remove(at)),
            None => return Err(format!("{kind} {hint} is not among {skipped:?}")),
        }
    }
    if !skipped.is_empty() {
        return Err(format!("skipped too much: {skipped:?}"));
    }
    let text = found.to_string();
    for (name, secret) in wanted["secrets"].as_object().into_iter().flatten() {
        if !text.contains(&Value::String(secret.as_str().unwrap().to_owned()).to_string()) {
            return Err(format!("the secret of {name} is lost"));
        }
    }
    Ok(())
}

#[test]
fn every_document_of_the_corpus_parses_as_expected() {
    let expect: Value = serde_json::from_str(include_str!("corpus/subs/expect.json")).unwrap();
    let complaints: Vec<String> = expect
        .as_object()
        .unwrap()
        .iter()
        .filter_map(|(file, wanted)| check(file, wanted).err().map(|complaint| format!("{file}: {complaint}")))
        .collect();
    assert!(complaints.is_empty(), "{} documents:\n{}", complaints.len(), complaints.join("\n"));
}

fn parse(text: &str) -> Document {
    parse_document(text.as_bytes())
}

fn names(document: &Document) -> Vec<&str> {
    document.nodes.iter().map(|node| node.name.as_str()).collect()
}

#[test]
fn headers_in_comments_are_read() {
    let document = parse_document(&std::fs::read(subs().join("plain-comments.txt")).unwrap());
    assert_eq!(document.headers.title.as_deref(), Some("Demo 订阅"));
    assert_eq!(document.headers.update_interval_hours, Some(12));
    assert_eq!(document.headers.support_url.as_deref(), Some("https://support.example.com/help"));
    let info = document.headers.user_info.unwrap();
    assert_eq!((info.upload, info.total, info.expire), (Some(1024), Some(10_737_418_240), Some(1_893_456_000)));
}

#[test]
fn links_are_found_anywhere_in_prose() {
    let document = parse(
        "Hi! Take trojan://pw@a.example.com:443#One%201, or (ss://YWVzLTI1Ni1nY206cHc@b.example.com:8388#Two) and\n\
         备用：vless://0d4170f2-4709-4533-a04d-9cc882af2d21@c.example.com:443?security=tls#Three。祝好\n\
         - hy2://pw@d.example.com#Four and five\n\
         <a href=\"trojan://pw@e.example.com:443#Six\">here</a> or `trojan://pw@f.example.com:443#Seven`; see https://example.com/help\n\
         url is https://dns.example.com/dns-query",
    );
    assert_eq!(names(&document), ["One 1", "Two", "Three", "Four and five", "Six", "Seven"]);
    assert_eq!(document.skipped, []);
    assert_eq!(document.format, Format::PlainList);
}

#[test]
fn a_folded_link_is_joined() {
    let link = "vmess://eyJ2IjoiMiIsInBzIjoidm0gd3JhcHBlZC1jcmxmIiwiYWRkIjoidm0uZXhhbXBsZS5jb20iLCJw\r\nb3J0IjoiNDQzIiwiaWQiOiJmNjUwZTdlZi02Y2IxLTRjMGYtYmQyYS00NzgyYjA4MTVkNzciLCJh\r\naWQiOiIwIiwic2N5IjoiYXV0byIsIm5ldCI6IndzIiwidHlwZSI6Im5vbmUiLCJob3N0IjoiY2Ru\r\nLmV4YW1wbGUuY29tIiwicGF0aCI6Ii93cyIsInRscyI6IiIsInNuaSI6IiIsImFscG4iOiIiLCJm\r\ncCI6IiJ9\r\ntrojan://pw@a.example.com:443#next";
    assert_eq!(names(&parse(link)), ["vm wrapped-crlf", "next"]);
}

#[test]
fn a_server_s_answer_is_passed_on() {
    let page = parse("<!DOCTYPE html><html><head><title>502 Bad &amp; Gateway</title></head><body>x</body></html>");
    assert_eq!((page.format, page.message.as_deref()), (Format::Html, Some("502 Bad & Gateway")));
    let panel = parse("{\"status\": \"fail\", \"message\": \"Subscription expired\", \"data\": null}");
    assert_eq!((panel.format, panel.message.as_deref()), (Format::UnknownJson, Some("Subscription expired")));
    assert!(panel.skipped[0].reason.contains("Subscription expired"));
}

#[test]
fn a_lone_address_is_a_subscription() {
    let document = parse("https://sub.example.com:2096/s/token?x=1#Mine");
    assert!(document.nodes.is_empty());
    assert!(document.subscription_url.is_some());
    assert!(!format!("{document:?}").contains("token"));
}

#[test]
fn clash_scalars_stay_text_and_anchors_merge() {
    let document = parse(
        "base: &base\n  type: ss\n  cipher: aes-256-gcm\n  port: 8388\nmore: &more {udp: true, port: 1}\nproxies:\n\
         - {<<: *base, name: a, server: a.example.com, password: 0123456789}\n\
         - {<<: [*more, *base], name: b, server: b.example.com, password: !<str> 12e34, port: 99}\n\
         - {<<: *base, name: yes, server: c.example.com, password: 2024-01-02}\n\
         - {<<: *base, name: d, server: d.example.com, password: !!str yes}\n",
    );
    assert_eq!(names(&document), ["a", "b", "yes", "d"], "{:?}", document.skipped);
    let text = report(&document).to_string();
    for secret in ["0123456789", "12e34", "2024-01-02", "\"yes\""] {
        assert!(text.contains(secret), "{secret} in {text}");
    }
    assert_eq!(document.nodes[1].port, 99);
}

#[test]
fn a_broken_end_does_not_lose_the_nodes_before_it() {
    let document = parse(
        "proxies:\n- {name: a, type: trojan, server: a.example.com, port: 443, password: x}\n- name: b\n\ttype: ss\n",
    );
    assert_eq!(names(&document), ["a"]);
    assert_eq!(document.skipped[0].kind, ErrorKind::BadYaml);
}

#[test]
fn skipped_entries_hold_no_secret() {
    let document = parse(
        "vless://SECRETSECRET-SECRET-SECRET-SECRETSECRET@a.example.com:443#x\nss://SECRET@b.example.com:1#y\n\
         trojan://SECRET@c.example.com:99999#z\ntrojan://SE#CRET@d.example.com:70000\nfoo://SECRET@x.example.com:1\n",
    );
    assert_eq!(document.skipped.len(), 5, "{:?}", document);
    for secret in ["SECRET", "CRET"] {
        assert!(!format!("{:?}", document.skipped).contains(secret), "{:?}", document.skipped);
    }
}
