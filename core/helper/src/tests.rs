#![cfg(target_os = "linux")]

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use culvert_helper_protocol::{KillSwitch, Open};
use culvert_system_privileged::linux::client::{Helper, HelperError};
use culvert_system_privileged::linux::tunnel::{Places, dump};

use crate::service::{Settings, serve};

/// An ordinary user.
const CALLER: u32 = 65534;
const LIMIT: Duration = Duration::from_secs(30);

/// Runs in a network namespace of its own, which goes with its thread.
fn alone(test: impl FnOnce(&Path) + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: network namespaces need root");
        return;
    }
    let thread = std::thread::spawn(move || {
        // SAFETY: only the network namespace of this fresh thread changes; descriptors stay shared.
        let made = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
        if let Err(error) = made {
            println!("skipped: a network namespace can't be made: {error}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        // The other user runs a copy of this program from here and leaves his marks here.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let program = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for line in [
            "link set lo up",
            "link add link0 type veth peer name far0",
            "address add 192.0.2.2/24 dev link0",
            "address add 2001:db8::2/64 dev link0 nodad",
            "link set link0 up",
            "link set far0 up",
            "route add default via 192.0.2.1",
        ] {
            let status = Command::new("ip").args(line.split(' ')).status().unwrap();
            assert!(status.success(), "ip {line}");
        }
        fs::write(folder.path().join("resolv.conf"), "nameserver 192.0.2.1\n").unwrap();
        test(folder.path());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A process of a test; it ends with the test.
struct Running(Child);

impl Running {
    fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn command(part: &str, folder: &Path, user: Option<u32>) -> Command {
    let mut command = Command::new(folder.join("program"));
    command
        .args(["--exact", &format!("tests::{part}")])
        .env("CULVERT_TEST_FOLDER", folder)
        .current_dir("/")
        .stdout(Stdio::null());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command
}

fn start(part: &str, folder: &Path, user: Option<u32>) -> Running {
    Running(command(part, folder, user).spawn().unwrap())
}

fn wait_for(what: &str, limit: Duration, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !there() {
        assert!(Instant::now() < end, "{what} does not come within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn places(folder: &Path) -> Places {
    Places { journal: folder.join("journal"), resolver: folder.join("resolv.conf") }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("run/helper.sock")
}

fn start_helper(folder: &Path) -> Running {
    let helper = start("helper_process", folder, None);
    wait_for("the helper", LIMIT, || {
        match Helper::connect(&socket(folder)) {
            // Root is not among its users.
            Ok(helper) => matches!(helper.report(), Err(HelperError::Failed(_))),
            Err(_) => false,
        }
    });
    helper
}

/// The dump, once the links have settled.
fn settled(folder: &Path) -> Vec<String> {
    let mut last = dump(&places(folder)).unwrap();
    let end = Instant::now() + LIMIT;
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = dump(&places(folder)).unwrap();
        let output = Command::new("ip").args(["-6", "address"]).output().unwrap();
        let waiting = String::from_utf8_lossy(&output.stdout).contains("tentative");
        if (now == last && !waiting) || Instant::now() > end {
            return now;
        }
        last = now;
    }
}

fn open_request() -> Open {
    Open {
        mtu: 9000,
        queues: 2,
        addresses: vec![(Ipv4Addr::new(198, 18, 0, 1).into(), 30), ("fd00:18::1".parse().unwrap(), 126)],
        excluded: vec![("100.64.0.0".parse().unwrap(), 10)],
        local_direct: true,
        resolver: Some(Ipv4Addr::new(198, 18, 0, 2).into()),
    }
}

fn folder_of_this_process() -> Option<PathBuf> {
    std::env::var_os("CULVERT_TEST_FOLDER").map(PathBuf::from)
}

/// Not a test by itself: the helper that tests start.
#[test]
fn helper_process() {
    let Some(folder) = folder_of_this_process() else {
        return;
    };
    serve(Settings {
        socket: socket(&folder),
        places: places(&folder),
        users: vec![CALLER],
        device: "cvh0".to_owned(),
    })
    .unwrap();
}

/// Not a test by itself: the ordinary user's process that tests start and kill.
#[test]
fn caller_process() {
    let Some(folder) = folder_of_this_process() else {
        return;
    };
    assert_eq!(rustix::process::geteuid().as_raw(), CALLER);
    let helper = Helper::connect(&socket(&folder)).unwrap();
    let (opened, queues) = helper.open(open_request()).unwrap();
    assert_eq!((opened.mtu, queues.len()), (9000, 2));
    assert!(helper.report().unwrap().open);
    assert!(helper.open(open_request()).is_err(), "one tunnel a connection");

    // The default leads into the device, a protected socket leaves by the link.
    let source_of = |socket: &UdpSocket| {
        socket.connect("203.0.113.7:9").unwrap();
        socket.local_addr().unwrap().ip()
    };
    let plain = UdpSocket::bind("0.0.0.0:0").unwrap();
    assert_eq!(source_of(&plain), Ipv4Addr::new(198, 18, 0, 1));
    let protected = UdpSocket::bind("0.0.0.0:0").unwrap();
    let target = Ipv4Addr::new(203, 0, 113, 7).into();
    helper.protect(&protected, target).unwrap();
    assert_eq!(source_of(&protected), Ipv4Addr::new(192, 0, 2, 2));
    let no_socket = fs::File::open("/dev/null").unwrap();
    assert!(helper.protect(&no_socket, target).is_err());

    // A device that shall outlive its last queue (TUNSETPERSIST).
    // SAFETY: the request takes its argument by value.
    unsafe {
        let persist = rustix::ioctl::IntegerSetter::<0x4004_54cb>::new_usize(1);
        rustix::ioctl::ioctl(&queues[0], persist).unwrap();
    }
    fs::write(folder.join("opened"), "").unwrap();
    loop {
        std::thread::park();
    }
}

fn start_caller(folder: &Path) -> Running {
    let mark = folder.join("opened");
    let _ = fs::remove_file(&mark);
    let caller = start("caller_process", folder, Some(CALLER));
    wait_for("the caller's tunnel", LIMIT, || mark.exists());
    caller
}

#[test]
fn an_ordinary_user_s_tunnel_is_undone_within_a_second_of_his_death() {
    alone(|folder| {
        let before = settled(folder);
        let _helper = start_helper(folder);
        let caller = start_caller(folder);
        assert_ne!(dump(&places(folder)).unwrap(), before);
        caller.kill();
        let killed = Instant::now();
        wait_for("the undone tunnel", Duration::from_secs(1), || dump(&places(folder)).unwrap() == before);
        println!("undone after {:?}", killed.elapsed());
    });
}

#[test]
fn another_user_is_refused() {
    alone(|folder| {
        let _helper = start_helper(folder);
        let helper = Helper::connect(&socket(folder)).unwrap();
        match helper.open(open_request()) {
            Err(HelperError::Failed(reason)) => assert!(reason.contains("user"), "{reason}"),
            Err(HelperError::Unreachable(_)) => {}
            other => panic!("{other:?}"),
        }
    });
}

/// Not a test by itself: tries to attach a queue of its own, its standard input, to the helper's
/// device.
#[test]
fn attaching_process() {
    let Some(folder) = folder_of_this_process() else {
        return;
    };
    // An ifreq: the name, then flags (TUN, no packet information, virtio-net header, multi-queue).
    let mut request = [0_u8; 40];
    request[..4].copy_from_slice(b"cvh0");
    request[16..18].copy_from_slice(&0x5101_u16.to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes one ifreq, which has these 40 bytes.
    let attached = unsafe {
        let attach = rustix::ioctl::Updater::<0x4004_54ca, [u8; 40]>::new(&mut request);
        rustix::ioctl::ioctl(std::io::stdin(), attach)
    };
    let user = rustix::process::geteuid().as_raw();
    let unfinished = folder.join(format!("attached.{user}.new"));
    fs::write(&unfinished, attached.is_ok().to_string()).unwrap();
    fs::rename(unfinished, folder.join(format!("attached.{user}"))).unwrap();
}

#[test]
fn nobody_else_attaches_a_queue_to_the_device() {
    alone(|folder| {
        let _helper = start_helper(folder);
        let _caller = start_caller(folder);
        let attached = |user: u32| {
            let queue = fs::File::options().read(true).write(true).open("/dev/net/tun").unwrap();
            let mut command = command("attaching_process", folder, Some(user));
            let _process = Running(command.stdin(queue).spawn().unwrap());
            let outcome = folder.join(format!("attached.{user}"));
            wait_for("the outcome", LIMIT, || outcome.exists());
            fs::read_to_string(outcome).unwrap()
        };
        assert_eq!(attached(CALLER - 1), "false");
        // The owner may: it is the owner's mark that keeps the stranger out.
        assert_eq!(attached(CALLER), "true");
    });
}

/// Not a test by itself: arms the kill switch and goes.
#[test]
fn arming_process() {
    let Some(folder) = folder_of_this_process() else {
        return;
    };
    let helper = Helper::connect(&socket(&folder)).unwrap();
    helper.arm_kill_switch(Vec::new()).unwrap();
    let report = helper.report().unwrap();
    assert_eq!(report.kill_switch, KillSwitch::Blocking);
    fs::write(folder.join("armed"), "").unwrap();
}

#[test]
fn the_kill_switch_outlives_caller_and_helper() {
    alone(|folder| {
        let leaks = || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"x", "203.0.113.7:9").is_ok()
        };
        let helper = start_helper(folder);
        assert!(leaks());
        let _arming = start("arming_process", folder, Some(CALLER));
        wait_for("the kill switch", LIMIT, || folder.join("armed").exists());
        helper.kill();
        let _helper = start_helper(folder);
        assert!(!leaks());
        crate::install::release().unwrap();
        assert!(leaks());
    });
}

#[test]
fn kills_at_any_moment_leave_nothing() {
    alone(|folder| {
        let before = settled(folder);
        let rounds = if std::env::var_os("CULVERT_FULL").is_some() { 50 } else { 10 };
        for round in 0_u64..rounds {
            let helper = start_helper(folder);
            let mark = folder.join("opened");
            let _ = fs::remove_file(&mark);
            let caller = start("caller_process", folder, Some(CALLER));
            if round % 2 == 0 {
                wait_for("the caller's tunnel", LIMIT, || mark.exists());
            } else {
                // Somewhere on its way.
                std::thread::sleep(Duration::from_millis(round * 13 % 80));
            }
            match round % 3 {
                0 => caller.kill(),
                1 => {
                    helper.kill();
                    caller.kill();
                    let _again = start_helper(folder);
                    assert_eq!(dump(&places(folder)).unwrap(), before, "round {round}");
                    continue;
                }
                _ => {
                    // The caller holds the queues on; the helper that comes next takes the device.
                    helper.kill();
                    let _again = start_helper(folder);
                    assert_eq!(dump(&places(folder)).unwrap(), before, "round {round}");
                    continue;
                }
            }
            wait_for("the undone tunnel", Duration::from_secs(1), || dump(&places(folder)).unwrap() == before);
            drop(helper);
        }
    });
}

#[test]
fn the_helper_s_dependencies_are_these() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "culvert-helper", "-e", "normal,no-proc-macro"])
        .args(["--prefix", "none", "-f", "{p}", "--target", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    names.dedup();
    let known = [
        "bitflags",
        "culvert-helper",
        "culvert-helper-protocol",
        "culvert-system-privileged",
        "libc",
        "linux-raw-sys",
        "once_cell",
        "pin-project-lite",
        "rustix",
        "socket2",
        "thiserror",
        "tracing",
        "tracing-core",
    ];
    assert_eq!(names, known);
}
