//! The sealing key against a real Secret Service (gnome-keyring), open, locked and absent.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test's helpers fail the test and say why")]

use std::fs;
use std::path::Path;
use std::process::Command;

fn have(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing: Vec<&&str> = programs
        .iter()
        .filter(|program| !std::env::split_paths(&path).any(|folder| folder.join(program).exists()))
        .collect();
    if missing.is_empty() {
        return true;
    }
    println!("skipped: {missing:?} not installed");
    assert!(std::env::var_os("CULVERT_REQUIRE_PEERS").is_none(), "{missing:?} not installed");
    false
}

/// Runs a script in a session of its own; the lines it printed.
fn session(home: &Path, script: &str) -> Vec<String> {
    fs::create_dir_all(home.join("run")).unwrap();
    let output = Command::new("dbus-run-session")
        .args(["--", "sh", "-euc", script])
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .env_remove("DISPLAY")
        .env_remove("XDG_DATA_HOME")
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home.join("run"))
        .env("ACTOR", env!("CARGO_BIN_EXE_system_secrets_actor"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(String::from).collect()
}

#[test]
fn kept_in_an_open_keyring_and_never_replaced_when_it_is_locked() {
    if !have(&["dbus-run-session", "gnome-keyring-daemon", "secret-tool"]) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let open = r#"
        printf pw | gnome-keyring-daemon --unlock --components=secrets > /dev/null
        "$ACTOR" $HOME/key yes
        "$ACTOR" $HOME/key no
        "$ACTOR" $HOME/key yes
        secret-tool search service culvert-test 2>&1 | grep -c sealing-key
    "#;
    let lines = session(home.path(), open);
    assert!(lines[0].starts_with("Lost"), "{lines:?}");
    assert_eq!(lines[1], "Key { place: Keyring, fresh: true, .. } 90");
    assert_eq!(lines[2], "Key { place: Keyring, fresh: false, .. } 90");
    assert_ne!(lines[3], "0");
    // The next session: the daemon runs, nobody has given the password, and nobody can be asked.
    let locked = r#"
        gnome-keyring-daemon --start --components=secrets > /dev/null
        "$ACTOR" $HOME/key yes
        "$ACTOR" $HOME/key no
    "#;
    let lines = session(home.path(), locked);
    assert!(lines[0].starts_with("Locked"), "{lines:?}");
    assert!(lines[1].starts_with("Locked"), "{lines:?}");
    assert!(!home.path().join("key").exists());
}

#[test]
fn without_a_keyring_a_file() {
    if !have(&["dbus-run-session", "env"]) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    // No bus at all, so that no installed keyring is started on demand.
    let script = r#"
        export DBUS_SESSION_BUS_ADDRESS=unix:path=$HOME/no-such-bus
        "$ACTOR" $HOME/key yes
        "$ACTOR" $HOME/key no
        "$ACTOR" $HOME/key yes
    "#;
    let lines = session(home.path(), script);
    assert!(lines[0].starts_with("Absent"), "{lines:?}");
    assert_eq!(lines[1], "Key { place: File, fresh: true, .. } 90");
    assert_eq!(lines[2], "Key { place: File, fresh: false, .. } 90");
}
