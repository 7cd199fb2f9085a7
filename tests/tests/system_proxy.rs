//! The races of the system proxy: whoever dies, whenever, the person's own settings come back.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What the issue promises after a kill.
const BACK_WITHIN: Duration = Duration::from_secs(2);
/// For what merely has to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const BEFORE: &str = "host=proxy.corp\nmode=auto\nscript=http://corp/pac\n";

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("setting"), BEFORE).unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        Self { folder }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("setting")
    }

    fn setting(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn change(&self, from: &str, to: &str) {
        let text = self.setting();
        assert!(text.contains(from), "{text}");
        fs::write(self.file(), text.replace(from, to)).unwrap();
    }

    fn journal(&self) -> PathBuf {
        self.state().join("system-proxy.journal")
    }

    fn core(&self) -> Core {
        self.core_with(&[])
    }

    fn core_with(&self, variables: &[(&str, &str)]) -> Core {
        let mut child = Command::new(env!("CARGO_BIN_EXE_system_proxy_actor"))
            .arg("core")
            .args([self.state(), self.file()])
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Core { child, input, output }
    }

    /// Process ids of the guards of this desk.
    fn guards(&self) -> Vec<i32> {
        let state = self.state();
        let mine = |line: &[u8]| {
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.contains(&b"guard".as_slice()) && words.contains(&state.as_os_str().as_encoded_bytes())
        };
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| mine(&line)))
            .collect()
    }

    fn one_guard(&self) -> i32 {
        wait_for(PATIENCE, "a guard", || self.guards().first().copied())
    }

    fn assert_back(&self) {
        assert_eq!(self.setting(), BEFORE);
        assert!(!self.journal().exists());
    }

    fn wait_until_back(&self, limit: Duration) -> Duration {
        let started = Instant::now();
        wait_for(limit, "the settings to be back", || {
            (self.setting() == BEFORE && !self.journal().exists()).then_some(())
        });
        started.elapsed()
    }
}

struct Core {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Core {
    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer
    }

    fn enable(&mut self, port: u16) {
        let answer = self.ask(&format!("enable {port}"));
        assert!(answer.starts_with("Enabled"), "{answer}");
    }

    /// SIGKILL, and the process is reaped.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn signal(pid: i32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn wait_for<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn gone(pid: i32) {
    wait_for(PATIENCE, "a process to end", || {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (status.is_empty() || status.contains(") Z ")).then_some(())
    });
}

fn is_on(desk: &Desk, port: u16) -> bool {
    let text = desk.setting();
    text.contains("mode=manual") && text.contains(&format!("port={port}\n"))
}

#[test]
fn on_and_off_leave_no_trace() {
    let desk = Desk::new();
    let mut core = desk.core();
    core.enable(2080);
    assert!(is_on(&desk, 2080));
    assert!(desk.journal().exists());
    assert_eq!(core.ask("status").trim(), "On { guarded: true, changed_by_others: [] }");
    core.enable(2081);
    assert!(is_on(&desk, 2081));
    let guard = desk.one_guard();
    core.ask("disable");
    desk.assert_back();
    gone(guard);
    assert_eq!(core.ask("status").trim(), "Off");
    core.enable(2080);
    core.ask("disable");
    desk.assert_back();
}

#[test]
fn killed_at_twenty_random_moments() {
    let mut seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut on = 0;
    for round in 0..20 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let desk = Desk::new();
        let mut core = desk.core_with(&[("CULVERT_TEST_WRITE_PAUSE_MS", "10")]);
        core.say("enable 2080");
        core.say("enable 2081");
        let moment = Duration::from_micros(seed % 250_000);
        std::thread::sleep(moment);
        let changed = desk.setting() != BEFORE;
        on += u32::from(changed);
        core.kill();
        let killed = Instant::now();
        wait_for(BACK_WITHIN, "the settings to be back", || (desk.setting() == BEFORE).then_some(()));
        println!(
            "round {round}: killed after {moment:?}, {}, back within {:?}",
            if changed { "changed" } else { "not yet changed" },
            killed.elapsed()
        );
        // Killed between journal and guard, a core leaves a journal of nothing; the next one takes it away.
        wait_for(PATIENCE, "the guard to be done", || desk.guards().is_empty().then_some(()));
        let answer = desk.core().ask("repair");
        assert!(answer.starts_with("Nothing") || answer.contains("values: 0, foreign: []"), "{answer}");
        desk.assert_back();
    }
    println!("{on} of 20 kills found a changed setting");
}

#[test]
fn a_killed_guard_is_replaced() {
    let desk = Desk::new();
    let mut core = desk.core();
    core.enable(2080);
    for _ in 0..3 {
        let guard = desk.one_guard();
        signal(guard, "-KILL");
        wait_for(PATIENCE, "another guard on watch", || {
            (desk.guards().iter().any(|pid| *pid != guard) && core.ask("status").contains("guarded: true"))
                .then_some(())
        });
    }
    assert!(is_on(&desk, 2080));
    core.kill();
    desk.wait_until_back(BACK_WITHIN);
}

#[test]
fn a_guard_does_not_end_when_asked_politely() {
    let desk = Desk::new();
    let mut core = desk.core();
    core.enable(2080);
    let guard = desk.one_guard();
    for polite in ["-TERM", "-INT", "-HUP"] {
        signal(guard, polite);
    }
    core.kill();
    desk.wait_until_back(BACK_WITHIN);
    gone(guard);
}

#[test]
fn both_killed_and_the_next_start_repairs() {
    let desk = Desk::new();
    let mut core = desk.core();
    core.enable(2080);
    let guard = desk.one_guard();
    // Stopped first, so that it can't act between the two kills.
    signal(guard, "-STOP");
    core.kill();
    signal(guard, "-KILL");
    gone(guard);
    assert!(is_on(&desk, 2080), "nobody was there to put it back");
    let answer = desk.core().ask("repair");
    assert!(answer.starts_with("Restored"), "{answer}");
    desk.assert_back();
}

#[test]
fn a_change_by_someone_else_stays() {
    let desk = Desk::new();
    let mut core = desk.core();
    core.enable(2080);
    desk.change("port=2080", "port=3128");
    desk.change("host=127.0.0.1", "host=other.example");
    assert!(core.ask("status").contains("file/host"));
    core.kill();
    wait_for(BACK_WITHIN, "the guard to be done", || (!desk.journal().exists()).then_some(()));
    assert_eq!(desk.setting(), "host=other.example\nmode=manual\nport=3128\nscript=http://corp/pac\n");
}

#[test]
fn switched_off_by_hand_stays_off() {
    let desk = Desk::new();
    let mut core = desk.core();
    core.enable(2080);
    desk.change("mode=manual", "mode=none");
    let answer = core.ask("disable");
    assert!(answer.contains("file/mode"), "{answer}");
    assert_eq!(desk.setting(), BEFORE.replace("mode=auto", "mode=none"));
}

#[test]
fn a_second_core_keeps_its_hands_off() {
    let desk = Desk::new();
    let mut first = desk.core();
    first.enable(2080);
    let mut second = desk.core();
    assert_eq!(second.ask("repair").trim(), "HeldByOther");
    let answer = second.ask("enable 2090");
    assert!(answer.contains(&format!("process {}", first.child.id())), "{answer}");
    assert!(is_on(&desk, 2080));
    second.kill();
    assert!(is_on(&desk, 2080));
    first.ask("disable");
    desk.assert_back();
}

#[test]
fn a_new_core_takes_over_from_a_dead_one_and_its_slow_guard() {
    let desk = Desk::new();
    let mut first = desk.core();
    first.enable(2080);
    let guard = desk.one_guard();
    signal(guard, "-STOP");
    first.kill();
    let mut second = desk.core();
    second.enable(2090);
    let journal = fs::read_to_string(desk.journal()).unwrap();
    assert!(journal.contains("\"generation\": 2"), "{journal}");
    // The old guard wakes up, finds the new owner and leaves.
    signal(guard, "-CONT");
    gone(guard);
    assert!(is_on(&desk, 2090));
    second.kill();
    desk.wait_until_back(BACK_WITHIN);
}

#[test]
fn a_core_that_starts_while_the_guard_works_waits_for_it() {
    let desk = Desk::new();
    let mut first = desk.core_with(&[("CULVERT_TEST_WRITE_PAUSE_MS", "60")]);
    first.enable(2080);
    first.kill();
    let mut second = desk.core();
    second.enable(2090);
    assert!(is_on(&desk, 2090));
    second.ask("disable");
    desk.assert_back();
}

#[test]
fn without_a_guard_nothing_is_changed() {
    for program in ["/bin/true", "/no/such/program"] {
        let desk = Desk::new();
        let mut core = desk.core_with(&[("CULVERT_TEST_GUARD", program)]);
        let answer = core.ask("enable 2080");
        assert!(answer.contains("nothing was changed"), "{answer}");
        desk.assert_back();
    }
}

#[test]
fn a_half_written_journal_is_no_journal() {
    // The core died while writing the very first journal: nothing was changed yet.
    let desk = Desk::new();
    fs::write(desk.state().join("system-proxy.journal.partial"), "{\"format\": 1, \"gen").unwrap();
    let mut core = desk.core();
    assert_eq!(core.ask("repair").trim(), "Nothing");
    core.enable(2080);
    core.ask("disable");
    desk.assert_back();
}

#[test]
fn a_damaged_journal_does_not_leave_a_dead_port() {
    let desk = Desk::new();
    let mut core = desk.core();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    core.enable(dead);
    let guard = desk.one_guard();
    signal(guard, "-STOP");
    core.kill();
    signal(guard, "-KILL");
    gone(guard);
    let whole = fs::read(desk.journal()).unwrap();
    fs::write(desk.journal(), &whole[..whole.len() / 2]).unwrap();
    let answer = desk.core().ask("repair");
    assert!(answer.starts_with("Damaged") && answer.contains("\"file\""), "{answer}");
    assert!(desk.setting().contains("mode=none"));
    assert!(!desk.journal().exists());
    // A port that someone listens on is left alone.
    let alive = TcpListener::bind("127.0.0.1:0").unwrap();
    fs::write(desk.file(), format!("host=127.0.0.1\nmode=manual\nport={}\n", alive.local_addr().unwrap().port()))
        .unwrap();
    fs::write(desk.journal(), "{").unwrap();
    assert!(desk.core().ask("repair").contains("cleared: []"));
    assert!(desk.setting().contains("mode=manual"));
}

#[test]
fn our_own_leftover_without_a_journal_is_not_kept() {
    let desk = Desk::new();
    fs::write(desk.file(), "host=127.0.0.1\nmode=manual\nport=2080\n").unwrap();
    let mut core = desk.core();
    core.enable(2080);
    core.ask("disable");
    assert!(desk.setting().contains("mode=none"));
}

#[test]
fn the_guard_is_asked_for_a_scope_of_its_own() {
    // A stand-in for systemd-run that notes how it is called and then does what the real one does.
    let desk = Desk::new();
    let bin = desk.folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let note = desk.folder.path().join("note");
    script(
        &bin.join("systemd-run"),
        &format!(
            "#!/bin/sh\necho \"$@\" > {}\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n",
            note.display()
        ),
    );
    let runtime = desk.folder.path().join("runtime");
    fs::create_dir_all(runtime.join("systemd/private")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let variables = [("PATH", path.as_str()), ("XDG_RUNTIME_DIR", runtime.to_str().unwrap())];
    let mut core = desk.core_with(&variables);
    core.enable(2080);
    assert!(fs::read_to_string(&note).unwrap().starts_with("--user --scope --quiet --collect -- "));
    core.kill();
    desk.wait_until_back(BACK_WITHIN);
    // Where it fails, a session of its own must do.
    script(&bin.join("systemd-run"), "#!/bin/sh\nexit 1\n");
    let mut core = desk.core_with(&variables);
    core.enable(2080);
    core.kill();
    desk.wait_until_back(BACK_WITHIN);
}

fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
