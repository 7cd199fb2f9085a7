//! The command line as a script sees it.

mod program;

use program::{Program, core, run};
use serde_json::Value;

const LINKS: &str = "trojan://secret@example.com:443#One\nvmess://!!!\n\
                     ss://YWVzLTEyOC1nY206c2VjcmV0@192.0.2.1:8388#Two\n";

#[test]
fn parse_prints_nodes_and_what_was_skipped() {
    let done = run(core().args(["parse", "--json"]), LINKS);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let value: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(value["format"], "plain-list");
    assert_eq!(value["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(value["nodes"][1]["method"], "aes-128-gcm");
    assert!(value["nodes"][0]["link"].as_str().unwrap().starts_with("trojan://"));
    assert_eq!(value["skipped"][0]["line"], 2);
    assert!(value["skipped"][0]["kind"].is_string() && value["skipped"][0]["reason"].is_string());
    // Prose goes to standard error and holds no secret.
    assert!(done.stderr.contains("line 2") && !done.stderr.contains("secret"));

    let table = run(core().args(["parse", "-"]), LINKS);
    assert!(table.stdout.contains("NAME") && !table.stdout.contains("secret"));
    let nothing = run(core().args(["parse", "--json"]), "hello\n");
    assert_eq!(nothing.status, 1);
    assert_eq!(run(core().args(["parse", "/does/not/exist"]), "").status, 1);
}

#[test]
fn bad_usage_is_status_two() {
    for words in [&["frobnicate"][..], &[], &["ctl"], &["probe"], &["run", "x", "--mixed", "nowhere"], &["guard"]] {
        assert_eq!(run(core().args(words), "").status, 2, "{words:?}");
    }
    assert_eq!(run(core().args(["ctl", "nodes.list", "{"]), "").status, 2);
}

#[test]
fn no_service_is_said_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let done = run(core().env("CULVERT_HOME", folder.path()).args(["ctl", "system.hello"]), "");
    assert_eq!(done.status, 1);
    assert!(done.stderr.contains("culvert-core serve"), "{}", done.stderr);
}

#[cfg(unix)]
mod service {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn ctl(home: &Path, words: &[&str]) -> program::Done {
        run(core().env("CULVERT_HOME", home).args(["--json", "ctl"]).args(words), "")
    }

    #[test]
    fn a_service_answers_keeps_and_ends() {
        let home = tempfile::tempdir().unwrap();
        let serve = || {
            let mut program =
                Program::start(core().env("CULVERT_HOME", home.path()).args(["serve", "--json", "--no-system-proxy"]));
            let line: Value = serde_json::from_str(&program.line()).unwrap();
            assert!(line["listening"].as_str().unwrap().ends_with("core.sock"));
            program
        };
        let program = serve();
        let text = serde_json::json!({ "text": LINKS }).to_string();
        let added = ctl(home.path(), &["import.commit", &text]);
        assert_eq!(added.status, 0, "{}", added.stderr);
        let list: Value = serde_json::from_str(&ctl(home.path(), &["nodes.list"]).stdout).unwrap();
        assert_eq!((&list["total"], &list["rows"][0]["name"]), (&2.into(), &"One".into()));
        assert!(!list.to_string().contains("secret"));

        let unknown = ctl(home.path(), &["nodes.frobnicate"]);
        assert_eq!(unknown.status, 1);
        assert!(unknown.stdout.contains("unknown_method"), "{}", unknown.stdout);
        let missing = ctl(home.path(), &["nodes.get", "{\"node\": 99}"]);
        assert_eq!((missing.status, missing.stdout.contains("node_not_found")), (1, true));

        let second = run(core().env("CULVERT_HOME", home.path()).args(["serve", "--no-system-proxy"]), "");
        assert_eq!(second.status, 1);
        assert!(second.stderr.contains(&program.id().to_string()), "{}", second.stderr);

        assert_eq!(program.end().status, 0);
        let socket = home.path().join("run/core.sock");
        assert!(!socket.exists());

        let program = serve();
        let list: Value = serde_json::from_str(&ctl(home.path(), &["nodes.list"]).stdout).unwrap();
        assert_eq!(list["total"], 2);
        assert_eq!(ctl(home.path(), &["system.shutdown"]).status, 0);
        assert_eq!(program.wait().status, 0);
    }

    #[test]
    fn events_can_be_watched() {
        let home = tempfile::tempdir().unwrap();
        let mut service =
            Program::start(core().env("CULVERT_HOME", home.path()).args(["serve", "--json", "--no-system-proxy"]));
        service.line();
        let mut watch = Program::start(core().env("CULVERT_HOME", home.path()).args([
            "ctl",
            "--count",
            "1",
            "watch",
            "settings.changed",
        ]));
        // The change is made until the watcher, whose beginning is not told, has seen one.
        let seen = watch.line_while(|| {
            let done = ctl(home.path(), &["settings.set", "{\"theme\": \"dark\"}"]);
            assert_eq!(done.status, 0, "{}", done.stderr);
        });
        let event: Value = serde_json::from_str(&seen).unwrap();
        assert_eq!(event["event"]["type"], "settings.changed");
        assert_eq!(event["event"]["data"]["theme"], "dark");
        assert!(event["seq"].as_u64().unwrap() >= 1);
        assert_eq!(watch.wait().status, 0);
        assert_eq!(service.end().status, 0);
    }

    /// The other user's side of the next test; does nothing when run as a test.
    #[test]
    fn stranger() {
        use std::io::{Read, Write};
        let Some(path) = std::env::var_os("CULVERT_TEST_SOCKET") else { return };
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        let _ = stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"state.snapshot\"}\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "another user got an answer");
    }

    #[test]
    fn another_user_is_refused_even_when_the_socket_is_open_to_all() {
        use std::os::unix::process::CommandExt;
        if std::process::Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout != b"0\n") {
            println!("skipped: only root can act as another user");
            assert!(std::env::var_os("CULVERT_REQUIRE_PEERS").is_none());
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let mut service =
            Program::start(core().env("CULVERT_HOME", home.path()).args(["serve", "--json", "--no-system-proxy"]));
        service.line();
        let socket = home.path().join("run/core.sock");
        let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        for path in [home.path(), &home.path().join("run"), &socket] {
            open(path);
        }
        let stranger = home.path().join("stranger");
        // Copied by another process: a descriptor open for writing here could be inherited by what a
        // neighbouring test starts just now, and a file open for writing can't be run.
        let copied = std::process::Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&stranger).status();
        assert!(copied.unwrap().success());
        open(&stranger);
        let mut command = std::process::Command::new(&stranger);
        command.args(["--exact", "service::stranger"]).env("CULVERT_TEST_SOCKET", &socket).uid(65_534).gid(65_534);
        let done = run(&mut command, "");
        assert_eq!(done.status, 0, "{}{}", done.stdout, done.stderr);
        assert!(done.stdout.contains("1 passed"), "{}", done.stdout);
        service.end();
    }
}
