//! Every link of the corpus: what it parses to, and that its export parses to the same.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop")]

use culvert_profile::export;
use culvert_profile::parse_link;
use serde_json::{Map, Value};

fn cases() -> Vec<Value> {
    include_str!("corpus/links.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What of `wanted` is not in `found`; objects as subsets, hosts without regard to case.
fn missing(path: &str, wanted: &Value, found: &Value) -> Option<String> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match found.get(key) {
                Some(found) => missing(&path, value, found),
                None => Some(format!("{path} is missing")),
            }
        }),
        _ if wanted == found => None,
        _ => Some(format!("{path}: wanted {wanted}, found {found}")),
    }
}

/// What `input` gives, in the corpus's words, and what is wrong with it.
fn outcome(input: &str) -> (Value, Option<String>) {
    match parse_link(input) {
        Ok(node) => {
            let kind = node.unsupported_kind.map(|kind| kind.word().to_owned());
            (serde_json::to_value(&node).unwrap(), kind)
        }
        Err(error) => (Value::String(error.reason), Some(error.kind.word().to_owned())),
    }
}

fn check(case: &Value) -> Option<String> {
    let (found, kind) = outcome(case["input"].as_str().unwrap());
    let mut wanted = vec![case["expect"].clone()];
    for alt in case["alt"].as_array().into_iter().flatten() {
        if alt.get("error").is_some() {
            wanted.push(alt.clone());
        } else {
            let mut merged: Map<String, Value> = case["expect"].as_object().unwrap().clone();
            merged.remove("uuid_raw");
            merged.remove("error");
            merged.extend(alt.as_object().unwrap().clone());
            wanted.push(Value::Object(merged));
        }
    }
    let mut complaints = Vec::new();
    for wanted in wanted {
        let complaint = match wanted.get("error") {
            Some(error) => {
                let named = wanted.get("names").and_then(Value::as_str).unwrap_or_default();
                let reason = found.as_str().or(found["unsupported"].as_str()).unwrap_or_default();
                if kind.as_deref() != error.as_str() {
                    Some(format!("wanted the error {error}, found {kind:?} {found}"))
                } else if !reason.contains(named) {
                    Some(format!("{reason} does not name {named}"))
                } else {
                    None
                }
            }
            None => missing("", &wanted, &found),
        };
        complaints.push(complaint?);
    }
    Some(format!("{}: {}", case["id"], complaints.join(" | ")))
}

#[test]
fn every_link_of_the_corpus_parses_as_expected() {
    let complaints: Vec<String> = cases().iter().filter_map(check).collect();
    assert!(complaints.is_empty(), "{} cases:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn every_valid_link_survives_its_export() {
    let mut complaints = Vec::new();
    for case in cases() {
        let Ok(node) = parse_link(case["input"].as_str().unwrap()) else {
            continue;
        };
        let link = export::link(&node);
        match parse_link(&link) {
            Ok(again) if again == node => {}
            other => complaints.push(format!("{}: {link}\n  {:?}\n  {node:?}", case["id"], other)),
        }
    }
    assert!(complaints.is_empty(), "{} cases:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn no_reason_holds_a_secret() {
    for case in cases() {
        if let Err(error) = parse_link(case["input"].as_str().unwrap()) {
            for secret in ["c1e8595b", "pw@", "user:pass", "tcPq2qZiBeDTNd", "plainpassword", "psk-value", "orJDOz5q"] {
                assert!(!error.to_string().contains(secret), "{}: {error}", case["id"]);
            }
        }
    }
}
