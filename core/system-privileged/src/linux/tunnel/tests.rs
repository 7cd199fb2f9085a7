mod leaks;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::firewall::{KillSwitch, KillSwitchState};
use super::super::protect::protect;
use super::*;

/// Runs in a network namespace of its own, which goes with its thread. False where that is not
/// permitted.
fn alone(test: impl FnOnce() + Send + 'static) {
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
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A machine with one link, `link0`, whose router is 192.0.2.1; the far end is in the namespace too
/// and only swallows. Resolver: a file of the test.
fn machine(folder: &Path) -> Places {
    run("ip link set lo up");
    run("ip link add link0 type veth peer name far0");
    run("ip address add 192.0.2.2/24 dev link0");
    run("ip address add 2001:db8::2/64 dev link0 nodad");
    run("ip link set link0 up");
    run("ip link set far0 up");
    run("ip route add default via 192.0.2.1");
    run("ip -6 route add default via 2001:db8::1");
    let resolver = folder.join("resolv.conf");
    fs::write(&resolver, "search example.test\nnameserver 192.0.2.1\n").unwrap();
    Places { journal: folder.join("journal"), resolver }
}

fn plan(name: &str) -> TunnelPlan {
    TunnelPlan {
        device: TunOptions {
            name: name.to_owned(),
            mtu: 8500,
            queues: 2,
            addresses: vec![
                (Ipv4Addr::new(198, 18, 0, 1).into(), 30),
                ("fd00:18::1".parse::<Ipv6Addr>().unwrap().into(), 126),
            ],
            owner: None,
        },
        mark: 0x6375,
        excluded: vec![
            Prefix::new("100.64.0.0".parse().unwrap(), 10).unwrap(),
            Prefix::new("fd7a::".parse().unwrap(), 48).unwrap(),
        ],
        local_direct: true,
        resolver: Some(Ipv4Addr::new(198, 18, 0, 2).into()),
    }
}

fn settle(places: &Places) -> Vec<String> {
    // Addresses of a link that has just come up take a moment to become routes.
    let limit = Instant::now() + Duration::from_secs(10);
    let mut last = dump(places).unwrap();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = dump(places).unwrap();
        if now == last && !run("ip -6 address").contains("tentative") || Instant::now() > limit {
            return now;
        }
        last = now;
    }
}

fn route_of(words: &str) -> String {
    run(&format!("ip route get {words}"))
}

#[test]
fn a_tunnel_owns_the_traffic_and_leaves_nothing() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let places = machine(folder.path());
        fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1").unwrap();
        let before = settle(&places);
        let firewall_before = run("nft list ruleset");

        let mut tunnel = Tunnel::open(&plan("cvt0"), &places).unwrap();
        let queues = tunnel.take_queues();
        assert_eq!(queues.len(), 2);
        assert!(tunnel.names_guarded);
        for (target, device) in [
            ("203.0.113.7", "cvt0"),
            ("2001:db8:ffff::7", "cvt0"),
            ("203.0.113.7 mark 0x6375", "link0"),
            ("2001:db8:ffff::7 mark 0x6375", "link0"),
            ("192.0.2.9", "link0"),
            ("192.0.2.9 ipproto udp dport 53", "cvt0"),
            ("192.0.2.9 ipproto tcp dport 53", "cvt0"),
            ("100.64.1.1", "link0"),
            ("203.0.113.7 oif link0", "link0"),
            ("127.0.0.53", "lo"),
        ] {
            let way = route_of(target);
            assert!(way.contains(&format!("dev {device} ")), "{target}: {way}");
        }
        let text = fs::read_to_string(&places.resolver).unwrap();
        assert!(text.contains("nameserver 198.18.0.2") && text.contains("search example.test"));
        assert!(!text.contains("192.0.2.1"));
        let strict = fs::read_to_string("/proc/sys/net/ipv4/conf/all/rp_filter").unwrap();
        assert_eq!(strict.trim(), "2");
        assert!(matches!(Tunnel::open(&plan("cvt1"), &places), Err(TunnelError::Held(_))));

        tunnel.close().unwrap();
        assert_eq!(dump(&places).unwrap(), before);
        assert_eq!(run("nft list ruleset"), firewall_before);
    });
}

#[test]
fn foreign_changes_stay() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let places = machine(folder.path());
        let tunnel = Tunnel::open(&plan("cvt0"), &places).unwrap();
        fs::write(&places.resolver, "nameserver 192.0.2.77\n").unwrap();
        run("ip rule add priority 8991 fwmark 0x77 lookup main");
        run("ip route add 198.51.100.0/24 via 192.0.2.5");
        tunnel.close().unwrap();
        let text = fs::read_to_string(&places.resolver).unwrap();
        assert_eq!(text, "nameserver 192.0.2.77\n");
        let rules = run("ip rule");
        assert!(rules.contains("0x77"), "{rules}");
        assert_eq!(rules.matches("89").count(), 1, "{rules}");
        assert!(run("ip route").contains("198.51.100.0/24"));
    });
}

#[test]
fn a_link_to_the_resolver_is_put_back() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut places = machine(folder.path());
        let link = folder.path().join("link.conf");
        std::os::unix::fs::symlink(&places.resolver, &link).unwrap();
        places.resolver = link;
        let before = settle(&places);
        let tunnel = Tunnel::open(&plan("cvt0"), &places).unwrap();
        assert_ne!(dump(&places).unwrap(), before);
        drop(tunnel);
        assert_eq!(dump(&places).unwrap(), before);
    });
}

/// Not a test by itself: the process that `a_killed_holder_is_repaired` kills.
#[test]
fn holder() {
    let Ok(folder) = std::env::var("CULVERT_TEST_HOLDER") else {
        return;
    };
    let places =
        Places { journal: Path::new(&folder).join("journal"), resolver: Path::new(&folder).join("resolv.conf") };
    loop {
        let tunnel = Tunnel::open(&plan("cvt0"), &places).unwrap();
        fs::write(Path::new(&folder).join("opened"), "").unwrap();
        tunnel.close().unwrap();
    }
}

#[test]
fn a_killed_holder_is_repaired() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let places = machine(folder.path());
        let before = settle(&places);
        let rounds = if std::env::var_os("CULVERT_FULL").is_some() { 50 } else { 10 };
        for round in 0..rounds {
            let opened = folder.path().join("opened");
            let _ = fs::remove_file(&opened);
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "linux::tunnel::tests::holder"])
                .env("CULVERT_TEST_HOLDER", folder.path())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let limit = Instant::now() + Duration::from_secs(30);
            while !opened.exists() {
                assert!(Instant::now() < limit, "the holder opens no tunnel");
                std::thread::sleep(Duration::from_millis(1));
            }
            // Somewhere in its loop of opening and closing.
            std::thread::sleep(Duration::from_millis(round * 37 % 100));
            child.kill().unwrap();
            child.wait().unwrap();
            repair(&places).unwrap();
            assert_eq!(dump(&places).unwrap(), before, "round {round}");
            assert_eq!(run("nft list ruleset"), "", "round {round}");
        }
    });
}

#[test]
fn the_kill_switch_keeps_everything_but_what_is_protected() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let _places = machine(folder.path());
        run("ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev link0 nud permanent");
        run("ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev link0 nud permanent");
        run("ip -6 neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev link0 nud permanent");
        let switch = KillSwitch { device: "cvt0".to_owned(), mark: 0x6375, allowed: Vec::new() };
        let sends = |target: &str, mark: Option<u32>| {
            let target: SocketAddr = target.parse().unwrap();
            let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).unwrap();
            if let Some(mark) = mark {
                protect(&socket, mark, target.ip()).unwrap();
            }
            socket.send_to(b"x", target).is_ok()
        };
        assert_eq!(KillSwitch::state("cvt0").unwrap(), KillSwitchState::Off);
        assert!(sends("203.0.113.7:9", None));
        switch.arm().unwrap();
        switch.arm().unwrap();
        assert_eq!(KillSwitch::state("cvt0").unwrap(), KillSwitchState::Blocking);
        for target in ["203.0.113.7:9", "[2001:db8:ffff::1]:9", "192.0.2.9:9", "192.0.2.9:53"] {
            assert!(!sends(target, None), "{target} leaks");
            assert!(sends(target, Some(0x6375)), "{target} is protected");
        }
        assert!(sends("127.0.0.1:9", None));
        let local = Prefix::new("192.0.2.0".parse().unwrap(), 24).unwrap();
        KillSwitch { allowed: vec![local], ..switch }.arm().unwrap();
        assert!(sends("192.0.2.9:9", None));
        assert!(!sends("192.0.2.9:53", None), "names stay in");
        assert!(!sends("203.0.113.7:9", None));
        KillSwitch::release().unwrap();
        KillSwitch::release().unwrap();
        assert_eq!(KillSwitch::state("cvt0").unwrap(), KillSwitchState::Off);
        assert!(sends("203.0.113.7:9", None));
    });
}
