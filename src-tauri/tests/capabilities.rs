//! What the window may do is a short list, and it stays one.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use serde_json::Value;

const COMMANDS: [&str; 7] =
    ["rpc", "listen", "shell_info", "clipboard_read", "clipboard_write", "set_language", "quit"];

fn read(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn json(path: &str) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

#[test]
fn there_is_one_capability_with_our_own_commands_only() {
    let files: Vec<_> = std::fs::read_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("capabilities"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, ["main.json"]);
    let capability = json("capabilities/main.json");
    let permissions: Vec<&str> =
        capability["permissions"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let expected: Vec<String> = COMMANDS.iter().map(|command| format!("allow-{}", command.replace('_', "-"))).collect();
    assert_eq!(permissions, expected);
    assert_eq!(capability["windows"], serde_json::json!(["main"]));
    assert!(capability.get("remote").is_none(), "no remote page may call the shell");
}

#[test]
fn the_commands_are_the_ones_that_are_built_and_handled() {
    let (build, main, commands) = (read("build.rs"), read("src/main.rs"), read("src/commands.rs"));
    for command in COMMANDS {
        assert!(build.contains(&format!("\"{command}\"")), "build.rs lacks {command}");
        assert!(main.contains(&format!("commands::{command},")), "main.rs lacks {command}");
        assert!(commands.contains(&format!("fn {command}(")), "commands.rs lacks {command}");
    }
    assert_eq!(main.matches("commands::").count(), COMMANDS.len());
    assert_eq!(commands.matches("#[tauri::command]").count(), COMMANDS.len());
}

#[test]
fn the_policy_of_the_page_is_strict() {
    let config = json("tauri.conf.json");
    let security = &config["app"]["security"];
    let policy = security["csp"].as_str().unwrap();
    for loose in ["unsafe-inline", "unsafe-eval", "*", "https:", "blob:", "wasm-unsafe-eval"] {
        assert!(!policy.contains(loose), "{loose} in {policy}");
    }
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert_eq!(security["freezePrototype"], true);
    assert!(security.get("assetProtocol").is_none());
    assert!(security.get("dangerousDisableAssetCspModification").is_none());
}

#[test]
fn no_plugin_opens_files_or_programs() {
    let manifest = read("Cargo.toml");
    for plugin in ["plugin-shell", "plugin-fs", "plugin-http", "plugin-opener", "plugin-process"] {
        assert!(!manifest.contains(plugin), "{plugin}");
    }
}
