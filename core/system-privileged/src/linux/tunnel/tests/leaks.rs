//! What leaves by the physical link, seen from its far end in a namespace of its own.

use std::io::Read;
use std::sync::mpsc;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);
const SERVER: &str = "203.0.113.7:7777";

/// The far end of `link0`: everything on its wire, and a server.
struct FarEnd {
    wire: Socket,
    server: UdpSocket,
}

impl FarEnd {
    fn new() -> Self {
        let (at_thread, thread_at) = mpsc::channel();
        let (moved, is_moved) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: only the network namespace of this fresh thread changes.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
            at_thread.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
            is_moved.recv().unwrap();
            for line in [
                "ip link set lo up",
                "ip link set far0 up",
                "ip address add 192.0.2.1/24 dev far0",
                "ip address add 203.0.113.7/32 dev lo",
                "ip address add 2001:db8::1/64 dev far0 nodad",
                "ip address add 2001:db8:ffff::1/128 dev lo nodad",
            ] {
                run(line);
            }
            // Every kind of packet; the kind is in network order.
            let all = Protocol::from(i32::from(3_u16.to_be()));
            let wire = Socket::new(Domain::PACKET, Type::DGRAM, Some(all)).unwrap();
            wire.set_read_timeout(Some(PATIENCE)).unwrap();
            let server = UdpSocket::bind(SERVER).unwrap();
            server.set_read_timeout(Some(PATIENCE)).unwrap();
            // The sockets keep the namespace alive.
            Self { wire, server }
        });
        let thread_id = thread_at.recv().unwrap();
        let process = std::process::id();
        run(&format!("ip link set far0 netns /proc/{process}/task/{thread_id}/ns/net"));
        moved.send(()).unwrap();
        let far_end = thread.join().unwrap();
        let limit = Instant::now() + PATIENCE;
        while run("ip -6 address").contains("tentative") {
            assert!(Instant::now() < limit, "the link has no addresses");
            std::thread::sleep(Duration::from_millis(20));
        }
        far_end
    }

    /// What came by the wire until the packet that ends with `mark`; without neighbour discovery.
    fn until(&self, mark: &[u8]) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        let mut buffer = vec![0; 65_536];
        loop {
            let length = (&self.wire).read(&mut buffer).unwrap();
            let packet = &buffer[..length];
            if packet.ends_with(mark) {
                return seen;
            }
            if !of_the_link(packet) {
                seen.push(packet.to_vec());
            }
        }
    }

    /// A datagram to the server and back.
    fn answers(&self, client: &UdpSocket) -> bool {
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        client.send_to(b"ping", SERVER).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = self.server.recv_from(&mut buffer).unwrap();
        self.server.send_to(&buffer[..length], from).unwrap();
        client.recv(&mut buffer).is_ok()
    }
}

/// ARP, neighbour discovery, and the groups of the link.
fn of_the_link(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => false,
        Some(6) => {
            let (next, kind) = match packet[6] {
                0 => (packet[40], packet[48]),
                next => (next, packet[40]),
            };
            next == 58 && matches!(kind, 130..=136 | 143)
        }
        Some(_) | None => true,
    }
}

fn protected() -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    protect(&socket, 0x6375, "203.0.113.7".parse().unwrap()).unwrap();
    socket
}

fn bound() -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket2::SockRef::from(&socket).bind_device(Some(b"link0")).unwrap();
    socket
}

/// Sends by every way that could leak; whether the system refuses it is not what counts.
fn tempt() {
    let targets =
        ["203.0.113.7:9", "192.0.2.1:9", "192.0.2.1:53", "192.0.2.1:853", "[2001:db8:ffff::1]:9", "[2001:db8::1]:53"];
    for target in targets.map(|target| target.parse::<SocketAddr>().unwrap()) {
        for device in [None, Some(&b"link0"[..])] {
            for kind in [Type::DGRAM, Type::STREAM] {
                let socket = Socket::new(Domain::for_address(target), kind, None).unwrap();
                socket.bind_device(device).unwrap();
                socket.set_nonblocking(true).unwrap();
                let _ = socket.connect(&target.into());
                let _ = socket.send(b"leak");
            }
        }
    }
    let echo = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    for device in [None, Some(&b"link0"[..])] {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
        socket.bind_device(device).unwrap();
        let target: SocketAddr = "203.0.113.7:0".parse().unwrap();
        let _ = socket.send_to(&echo, &SockAddr::from(target));
    }
}

#[test]
fn protected_sockets_get_their_answers_under_every_reverse_path_filter() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let places = machine(folder.path());
        let far_end = FarEnd::new();
        for filter in ["0", "1", "2"] {
            for link in ["all", "link0"] {
                fs::write(format!("/proc/sys/net/ipv4/conf/{link}/rp_filter"), filter).unwrap();
            }
            let before = dump(&places).unwrap();
            let tunnel = Tunnel::open(&plan("cvt0"), &places).unwrap();
            assert!(far_end.answers(&protected()), "marked, filter {filter}");
            assert!(far_end.answers(&bound()), "bound, filter {filter}");
            tunnel.close().unwrap();
            assert_eq!(dump(&places).unwrap(), before, "filter {filter}");
        }
    });
}

#[test]
fn without_privileges_a_protected_socket_is_bound_to_its_link() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let places = machine(folder.path());
        let far_end = FarEnd::new();
        let tunnel = Tunnel::open(&plan("cvt0"), &places).unwrap();
        // This thread, and no other, is an ordinary user's for a while.
        let (root, nobody) = (rustix::process::Uid::ROOT, rustix::process::Uid::from_raw(65534));
        rustix::thread::set_thread_res_uid(nobody, nobody, root).unwrap();
        let device = |socket: &UdpSocket| socket2::SockRef::from(socket).device().unwrap();
        let socket = protected();
        assert_eq!(device(&socket).as_deref(), Some(&b"link0"[..]));
        assert!(far_end.answers(&socket));
        for on_link in ["192.0.2.1", "127.0.0.1"] {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            protect(&socket, 0x6375, on_link.parse().unwrap()).unwrap();
            assert_eq!(device(&socket), None, "{on_link}");
        }
        rustix::thread::set_thread_res_uid(root, root, root).unwrap();
        tunnel.close().unwrap();
    });
}

#[test]
fn the_armed_kill_switch_leaks_nothing_with_and_without_a_tunnel() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let places = machine(folder.path());
        let far_end = FarEnd::new();
        tempt();
        protected().send_to(b"unarmed", SERVER).unwrap();
        assert!(far_end.until(b"unarmed").len() > 5, "the wire shows leaks");

        let switch = KillSwitch { device: "cvt0".to_owned(), mark: 0x6375, allowed: Vec::new() };
        switch.arm().unwrap();
        // What was sent before and is answered or sent again only now.
        protected().send_to(b"armed", SERVER).unwrap();
        far_end.until(b"armed");
        for _ in 0..3 {
            tempt();
            let tunnel = Tunnel::open(&plan("cvt0"), &places).unwrap();
            tempt();
            assert_eq!(KillSwitch::state("cvt0").unwrap(), KillSwitchState::Armed);
            tunnel.close().unwrap();
        }
        tempt();
        protected().send_to(b"end", SERVER).unwrap();
        assert_eq!(far_end.until(b"end"), Vec::<Vec<u8>>::new());
    });
}

#[test]
fn an_open_tunnel_leaks_no_names_even_of_bound_sockets() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let places = machine(folder.path());
        let far_end = FarEnd::new();
        let _tunnel = Tunnel::open(&plan("cvt0"), &places).unwrap();
        for target in ["192.0.2.1:53", "192.0.2.1:853", "203.0.113.7:53"] {
            let _ = bound().send_to(b"name", target);
        }
        let plain = UdpSocket::bind("0.0.0.0:0").unwrap();
        let _ = plain.send_to(b"name", "192.0.2.1:53");
        let _ = plain.send_to(b"all", "203.0.113.7:9");
        protected().send_to(b"end", SERVER).unwrap();
        assert_eq!(far_end.until(b"end"), Vec::<Vec<u8>>::new());
    });
}
