//! The system proxy against the desktops' own programs: GNOME's `gsettings`, KDE's `kreadconfig5`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test's helpers fail the test and say why")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Whether the programs are here; says what is missing.
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

/// Runs a shell script in a session with an empty home; `$ACTOR` is our core, `$STATE` its state folder.
fn session(home: &Path, bus: bool, desktop: &str, script: &str) -> Output {
    for folder in ["state", "run"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    let mut command = if bus { Command::new("dbus-run-session") } else { Command::new("env") };
    if bus {
        command.arg("--");
    }
    command
        .args(["sh", "-euc", script])
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("GSETTINGS_BACKEND")
        .env_remove("KDE_FULL_SESSION")
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home.join("run"))
        .env("XDG_CURRENT_DESKTOP", desktop)
        .env("STATE", home.join("state"))
        .env("ACTOR", env!("CARGO_BIN_EXE_system_proxy_actor"));
    let output = command.output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    output
}

/// Enables, shows, then either disables or dies by SIGKILL and waits for the guard.
const CORE: &str = r#"
run() { # run HOW SHOW
    mkfifo "$STATE/in"
    "$ACTOR" core "$STATE" os < "$STATE/in" > "$STATE/out" &
    pid=$!
    exec 3> "$STATE/in"
    echo "enable 2080" >&3
    n=0; until [ -s "$STATE/out" ]; do n=$((n+1)); [ $n -lt 400 ]; sleep 0.05; done
    cat "$STATE/out"
    $2
    if [ "$1" = kill ]; then kill -9 $pid; else echo disable >&3; fi
    n=0; while [ -e "$STATE/system-proxy.journal" ]; do n=$((n+1)); [ $n -lt 100 ]; sleep 0.02; done
    exec 3>&-
    rm "$STATE/in" "$STATE/out"
}
"#;

#[test]
fn gnome_by_its_own_tool() {
    if !have(&["dbus-run-session", "gsettings", "dconf"]) {
        return;
    }
    for how in ["disable", "kill"] {
        let home = tempfile::tempdir().unwrap();
        let script = format!(
            r#"{CORE}
            S=org.gnome.system.proxy
            gsettings set $S mode auto
            gsettings set $S autoconfig-url http://corp/pac
            gsettings set $S.http host proxy.corp
            gsettings set $S ignore-hosts "['intranet', 'ümlaut.example']"
            dconf dump /system/proxy/ > $HOME/before
            show() {{ gsettings get $S mode; gsettings get $S.https port; gsettings get $S.socks host; }}
            run {how} show
            dconf dump /system/proxy/ > $HOME/after
            diff $HOME/before $HOME/after && echo SAME"#
        );
        let output = session(home.path(), true, "GNOME", &script);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success());
        assert!(text.contains("'manual'\n2080\n'127.0.0.1'\n"), "{text}");
        assert!(text.ends_with("SAME\n"), "{text}");
    }
}

#[test]
fn gnome_without_a_bus_is_an_error_not_a_lie() {
    if !have(&["gsettings"]) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let output = session(home.path(), false, "GNOME", r#"echo "enable 2080" | "$ACTOR" core "$STATE" os; ls "$STATE""#);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("error the system proxy could not be changed"), "{text}");
    assert!(!text.contains("journal\n"), "{text}");
}

#[test]
fn kde_by_its_own_tools() {
    if !have(&["dbus-run-session", "kreadconfig5", "kwriteconfig5", "dbus-monitor"]) {
        return;
    }
    for how in ["disable", "kill"] {
        let home = tempfile::tempdir().unwrap();
        let script = format!(
            r#"{CORE}
            set_one() {{ kwriteconfig5 --file kioslaverc --group "Proxy Settings" --key "$1" "$2"; }}
            get() {{ kreadconfig5 --file kioslaverc --group "Proxy Settings" --key "$1"; }}
            set_one ProxyType 2
            set_one "Proxy Config Script" "http://corp/pac"
            set_one httpProxy "http://proxy.corp 8080"
            kwriteconfig5 --file kioslaverc --group Other --key Mine "two words"
            cp $HOME/.config/kioslaverc $HOME/before
            dbus-monitor --session "interface='org.kde.KIO.Scheduler'" > $HOME/signals & monitor=$!
            n=0; until [ -s $HOME/signals ]; do n=$((n+1)); [ $n -lt 200 ]; sleep 0.02; done
            show() {{ get ProxyType; get httpProxy; get socksProxy; get NoProxyFor; }}
            run {how} show
            kill $monitor
            grep -c reparseSlaveConfiguration $HOME/signals
            diff $HOME/before $HOME/.config/kioslaverc && echo SAME"#
        );
        let output = session(home.path(), true, "KDE", &script);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success());
        assert!(
            text.contains("1\nhttp://127.0.0.1 2080\nsocks://127.0.0.1 2080\nlocalhost,.local,127.0.0.0/8"),
            "{text}"
        );
        assert!(text.ends_with("2\nSAME\n"), "{text}");
    }
}
