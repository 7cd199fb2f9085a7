//! The arrows between the crates run one way, and the pure crates stay pure (architecture.md,
//! "Workspace").

#![allow(clippy::unwrap_used, reason = "a test fails by them")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The crates of the product and which of the others each may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("culvert-wire", &[]),
    ("culvert-profile", &["culvert-wire"]),
    ("culvert-route", &["culvert-wire"]),
    ("culvert-helper-protocol", &[]),
    ("culvert-netstack", &["culvert-wire"]),
    ("culvert-net", &["culvert-wire", "culvert-profile", "culvert-netstack"]),
    ("culvert-system", &[]),
    ("culvert-system-privileged", &["culvert-helper-protocol", "culvert-netstack"]),
    ("culvert-ipc", &["culvert-profile"]),
    (
        "culvert-engine",
        &[
            "culvert-wire",
            "culvert-profile",
            "culvert-route",
            "culvert-net",
            "culvert-netstack",
            "culvert-system",
            "culvert-system-privileged",
            "culvert-helper-protocol",
            "culvert-ipc",
        ],
    ),
    (
        "culvert-core",
        &[
            "culvert-wire",
            "culvert-profile",
            "culvert-route",
            "culvert-net",
            "culvert-netstack",
            "culvert-system",
            "culvert-system-privileged",
            "culvert-helper-protocol",
            "culvert-ipc",
            "culvert-engine",
        ],
    ),
    ("culvert-helper", &["culvert-system-privileged", "culvert-helper-protocol"]),
    ("culvert-app", &["culvert-ipc"]),
];

/// What a pure crate must not reach, however far down.
const IMPURE: &[&str] = &["tokio", "socket2", "mio", "async-io", "rustix", "getrandom"];
const PURE: &[&str] = &["culvert-wire", "culvert-profile", "culvert-route", "culvert-helper-protocol"];

struct Metadata {
    /// Direct dependencies by crate: name and kind.
    direct: BTreeMap<String, Vec<(String, Option<String>)>>,
}

fn metadata() -> Metadata {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut direct = BTreeMap::new();
    for package in value["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap().to_owned();
        let dependencies = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|dependency| {
                let kind = dependency["kind"].as_str().map(ToOwned::to_owned);
                (dependency["name"].as_str().unwrap().to_owned(), kind)
            })
            .collect();
        direct.insert(name, dependencies);
    }
    Metadata { direct }
}

#[test]
fn arrows_run_one_way() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for (name, dependencies) in &metadata().direct {
        if name == "culvert-tests" || name == "culvert-bench" {
            continue;
        }
        let Some(allowed) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} is not in the list of arrows"));
            continue;
        };
        for (dependency, kind) in dependencies {
            let tests_only = kind.as_deref() == Some("dev");
            if dependency.starts_with("culvert-") && !tests_only && !allowed.contains(dependency.as_str()) {
                wrong.push(format!("{name} must not use {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_crates_name_nothing_impure() {
    let metadata = metadata();
    for name in PURE {
        for (dependency, kind) in &metadata.direct[*name] {
            assert!(
                kind.is_some() || !IMPURE.contains(&dependency.as_str()),
                "{name} is pure and must not use {dependency}"
            );
        }
    }
}
