//! The TUN inbound in network namespaces: applications in the guest, servers on the host, every
//! flow through the stack. Needs root.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use culvert_tests::netns::{LINK, Network, SERVER_V4, SERVER_V6, Side, join, with_network};
use sha2::{Digest, Sha256};

const RELAY: &str = env!("CARGO_BIN_EXE_tun_relay");
const DEVICE: &str = "tun0";
const LIMIT: Duration = Duration::from_secs(60);

/// Makes a link bad. False when this kernel can't.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn spoil(network: &Network, side: Side, link: &str, how: &[&str]) -> bool {
    let mut arguments = vec!["qdisc", "add", "dev", link, "root", "netem"];
    arguments.extend(how);
    match network.run(side, "tc", &arguments) {
        Ok(_) => true,
        Err(error) => {
            // Nothing can be installed for this: the kernel was built without it.
            assert!(error.to_string().contains("qdisc kind is unknown"), "{error}");
            eprintln!("skipped: this kernel has no netem: {error}");
            false
        }
    }
}

/// Has a namespace lose packets of a link, in both directions, by chance. False when this kernel
/// can't, and peers are not required.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn lose(network: &Network, side: Side, link: &str, per_thousand: u32) -> bool {
    let chance = format!("numgen random mod 1000 < {per_thousand} counter drop");
    let rules = format!(
        "add table inet lossy
         add chain inet lossy in {{ type filter hook prerouting priority -300; }}
         add chain inet lossy out {{ type filter hook postrouting priority 300; }}
         add rule inet lossy in iifname {link} {chance}
         add rule inet lossy out oifname {link} {chance}"
    );
    for rule in rules.lines() {
        if let Err(error) = network.run(side, "nft", &[rule.trim()]) {
            assert!(std::env::var("CULVERT_REQUIRE_PEERS").as_deref() != Ok("1"), "{error}");
            eprintln!("skipped: nftables can't lose packets here: {error}");
            return false;
        }
    }
    true
}

/// How to open the device.
struct Device {
    mtu: &'static str,
    queues: &'static str,
    plain: bool,
}

const OFFLOADED: Device = Device { mtu: "1500", queues: "1", plain: false };

fn tunnel(network: &mut Network, device: &Device) -> io::Result<()> {
    let way = format!("direct:{LINK}");
    let mut arguments = vec![DEVICE, device.mtu, device.queues, &way];
    if device.plain {
        arguments.push("plain");
    }
    network.spawn_ready(Side::Guest, RELAY, &arguments)?;
    network.route_into(DEVICE)
}

fn server(v6: bool) -> IpAddr {
    if v6 { SERVER_V6.parse().unwrap() } else { SERVER_V4.parse().unwrap() }
}

/// Listens on the host and serves each of `connections` with `serve`, on a thread of its own.
fn listen(
    network: &Network,
    v6: bool,
    connections: usize,
    serve: impl Fn(TcpStream) -> io::Result<()> + Send + Clone + 'static,
) -> io::Result<(SocketAddr, std::thread::JoinHandle<io::Result<()>>)> {
    let (address, bound) = std::sync::mpsc::channel();
    let thread = network.inside(Side::Host, move || {
        let listener = TcpListener::bind((server(v6), 0))?;
        address.send(listener.local_addr()?).map_err(io::Error::other)?;
        let mut threads = Vec::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.set_write_timeout(Some(LIMIT))?;
            let serve = serve.clone();
            threads.push(std::thread::spawn(move || serve(stream)));
        }
        threads.into_iter().try_for_each(join)
    });
    Ok((bound.recv_timeout(LIMIT).map_err(io::Error::other)?, thread))
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Bytes that depend on their place, so that a swapped or lost segment shows.
fn write_pattern(stream: &mut TcpStream, total: usize, seed: u64) -> io::Result<Vec<u8>> {
    let mut hash = Sha256::new();
    let mut state = seed | 1;
    let mut block = vec![0; 61_003];
    let mut left = total;
    while left > 0 {
        for byte in &mut block {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        let part = &block[..left.min(block.len())];
        stream.write_all(part)?;
        hash.update(part);
        left -= part.len();
    }
    Ok(hash.finalize().to_vec())
}

fn read_to_hash(stream: &mut TcpStream) -> io::Result<(usize, Vec<u8>)> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 128 << 10];
    let mut total = 0;
    loop {
        match stream.read(&mut block)? {
            0 => return Ok((total, hash.finalize().to_vec())),
            read => {
                hash.update(&block[..read]);
                total += read;
            }
        }
    }
}

/// Sends `total` bytes each way at once, half-closing both ways, and compares hashes.
fn exchange(network: &Network, v6: bool, total: usize) -> io::Result<()> {
    let serve = move |mut stream: TcpStream| {
        let mut writer = stream.try_clone()?;
        let sending = std::thread::spawn(move || {
            let hash = write_pattern(&mut writer, total, 7)?;
            writer.shutdown(Shutdown::Write)?;
            Ok(hash)
        });
        let (read, hash) = read_to_hash(&mut stream)?;
        let sent = join(sending)?;
        assert_eq!(read, total, "what the server read");
        // The hashes cross-check each other through what both sides compute from the same seeds.
        assert_eq!(hash, reference(total, 5));
        assert_eq!(sent, reference(total, 7));
        Ok(())
    };
    let (address, served) = listen(network, v6, 1, serve)?;
    let client = network.inside(Side::Guest, move || {
        let mut stream = connect(address)?;
        let mut writer = stream.try_clone()?;
        let sending = std::thread::spawn(move || {
            write_pattern(&mut writer, total, 5)?;
            writer.shutdown(Shutdown::Write)
        });
        let (read, hash) = read_to_hash(&mut stream)?;
        join(sending)?;
        assert_eq!((read, hash), (total, reference(total, 7)), "what the client read");
        Ok(())
    });
    join(client)?;
    join(served)
}

fn reference(total: usize, seed: u64) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut state = seed | 1;
    let mut block = vec![0; 61_003];
    let mut left = total;
    while left > 0 {
        for byte in &mut block {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        let part = &block[..left.min(block.len())];
        hash.update(part);
        left -= part.len();
    }
    hash.finalize().to_vec()
}

#[test]
fn bytes_arrive_whole_in_both_families_at_every_mtu() {
    for device in [
        OFFLOADED,
        Device { mtu: "8500", queues: "2", plain: false },
        Device { mtu: "65535", queues: "1", plain: false },
        Device { mtu: "1280", queues: "1", plain: true },
    ] {
        with_network(&[], |network| {
            tunnel(network, &device)?;
            exchange(network, false, 16 << 20)?;
            exchange(network, true, 16 << 20)
        });
    }
}

#[test]
fn bytes_arrive_whole_over_a_bad_link() {
    with_network(&["tc"], |network| {
        tunnel(network, &OFFLOADED)?;
        let how = ["delay", "2ms", "1ms", "loss", "1%", "reorder", "5%", "duplicate", "1%"];
        if !spoil(network, Side::Host, LINK, &how) || !spoil(network, Side::Guest, LINK, &how) {
            return Ok(());
        }
        exchange(network, false, 4 << 20)?;
        exchange(network, true, 4 << 20)
    });
}

#[test]
fn bytes_arrive_whole_over_a_link_that_loses_packets() {
    with_network(&["nft"], |network| {
        tunnel(network, &OFFLOADED)?;
        if !lose(network, Side::Host, LINK, 5) {
            return Ok(());
        }
        exchange(network, false, 4 << 20)?;
        exchange(network, true, 4 << 20)
    });
}

/// Super-packets lost between the application and the stack: the stack's own TCP must recover.
#[test]
fn bytes_arrive_whole_when_the_stack_loses_packets() {
    with_network(&["nft"], |network| {
        tunnel(network, &OFFLOADED)?;
        if !lose(network, Side::Guest, DEVICE, 10) {
            return Ok(());
        }
        exchange(network, false, 2 << 20)?;
        exchange(network, true, 2 << 20)
    });
}

/// Loss between the application and the stack itself: the stack's own TCP must recover.
#[test]
fn bytes_arrive_whole_when_the_device_loses_packets() {
    with_network(&["tc"], |network| {
        tunnel(network, &OFFLOADED)?;
        let how = ["loss", "0.5%", "reorder", "2%", "delay", "1ms"];
        if !spoil(network, Side::Guest, DEVICE, &how) {
            return Ok(());
        }
        exchange(network, false, 4 << 20)?;
        exchange(network, true, 4 << 20)
    });
}

#[test]
fn many_flows_at_once() {
    const FLOWS: usize = 400;
    with_network(&[], |network| {
        tunnel(network, &Device { mtu: "1500", queues: "2", plain: false })?;
        let echo = |mut stream: TcpStream| {
            let mut question = [0; 1000];
            stream.read_exact(&mut question)?;
            stream.write_all(&question)
        };
        let (address, served) = listen(network, false, FLOWS, echo)?;
        let clients = network.inside(Side::Guest, move || {
            let streams: Vec<_> = (0..FLOWS).map(|_| connect(address)).collect::<Result<_, _>>()?;
            for (number, mut stream) in streams.into_iter().enumerate() {
                let question = vec![number as u8; 1000];
                stream.write_all(&question)?;
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer)?;
                assert_eq!(answer, question);
            }
            Ok(())
        });
        join(clients)?;
        join(served)
    });
}

#[test]
fn a_refused_target_is_refused_to_the_application() {
    with_network(&[], |network| {
        tunnel(network, &OFFLOADED)?;
        for v6 in [false, true] {
            let refused = network.inside(Side::Guest, move || Ok(connect((server(v6), 9).into()).err()));
            let error = join(refused)?.expect("nothing listens there");
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        }
        Ok(())
    });
}

#[test]
fn a_half_closed_flow_still_answers() {
    with_network(&[], |network| {
        tunnel(network, &OFFLOADED)?;
        let serve = |mut stream: TcpStream| {
            let mut question = Vec::new();
            stream.read_to_end(&mut question)?;
            stream.write_all(&question)
        };
        let (address, served) = listen(network, true, 1, serve)?;
        let client = network.inside(Side::Guest, move || {
            let mut stream = connect(address)?;
            stream.write_all(b"all I have to say")?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            assert_eq!(answer, b"all I have to say");
            Ok(())
        });
        join(client)?;
        join(served)
    });
}

#[test]
fn resets_pass_both_ways() {
    with_network(&[], |network| {
        tunnel(network, &OFFLOADED)?;
        let reset = |stream: &TcpStream| socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
        let (address, served) = listen(network, false, 1, move |mut stream| {
            stream.read_exact(&mut [0])?;
            reset(&stream)
        })?;
        let client = network.inside(Side::Guest, move || {
            let mut stream = connect(address)?;
            stream.write_all(&[1])?;
            Ok(stream.read(&mut [0]).err())
        });
        let error = join(client)?.expect("the server reset the flow");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        join(served)?;

        let (address, served) = listen(network, false, 1, |mut stream| {
            stream.read_exact(&mut [0])?;
            let error = stream.read(&mut [0]).expect_err("the client reset the flow");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            Ok(())
        })?;
        let client = network.inside(Side::Guest, move || {
            let mut stream = connect(address)?;
            stream.write_all(&[1])?;
            reset(&stream)
        });
        join(client)?;
        join(served)
    });
}

/// A reader that stops must stop the writer, and lose nothing when it goes on.
#[test]
fn a_stopped_reader_holds_the_writer_back() {
    const TOTAL: usize = 32 << 20;
    with_network(&[], |network| {
        tunnel(network, &OFFLOADED)?;
        let (address, served) = listen(network, false, 1, |mut stream| {
            stream.set_write_timeout(Some(Duration::from_secs(1)))?;
            let mut written = 0;
            let block = vec![7; 64 << 10];
            // Stops taking bytes once the rings and the sockets' buffers are full.
            loop {
                match stream.write(&block) {
                    Ok(amount) => written += amount,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
                assert!(written < TOTAL, "nothing holds the writer back");
            }
            stream.set_write_timeout(Some(LIMIT))?;
            stream.read_exact(&mut [0])?;
            let rest = vec![7; TOTAL - written];
            stream.write_all(&rest)
        })?;
        let client = network.inside(Side::Guest, move || {
            let mut stream = connect(address)?;
            // The window stays closed for some retransmission timeouts.
            std::thread::sleep(Duration::from_secs(5));
            stream.write_all(&[1])?;
            let (total, _) = read_to_hash(&mut stream)?;
            assert_eq!(total, TOTAL);
            Ok(())
        });
        join(client)?;
        join(served)
    });
}

fn udp_echo(network: &Network, v6: bool) -> io::Result<SocketAddr> {
    let (address, bound) = std::sync::mpsc::channel();
    network.inside::<()>(Side::Host, move || {
        let socket = UdpSocket::bind((server(v6), 0))?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        address.send(socket.local_addr()?).map_err(io::Error::other)?;
        let mut buffer = vec![0; 65_536];
        loop {
            let (length, from) = socket.recv_from(&mut buffer)?;
            socket.send_to(&buffer[..length], from)?;
        }
    });
    bound.recv_timeout(LIMIT).map_err(io::Error::other)
}

#[test]
fn datagrams_of_every_size_come_back() {
    for plain in [false, true] {
        with_network(&[], move |network| {
            tunnel(network, &Device { plain, ..OFFLOADED })?;
            for v6 in [false, true] {
                let addresses = [udp_echo(network, v6)?, udp_echo(network, v6)?];
                let client = network.inside(Side::Guest, move || {
                    let any: IpAddr = if v6 { "::".parse().unwrap() } else { "0.0.0.0".parse().unwrap() };
                    let socket = UdpSocket::bind((any, 0))?;
                    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
                    let mut buffer = vec![0; 65_536];
                    // Above the MTU the datagram leaves in fragments.
                    for size in [0, 1, 200, 1400, 4000, 20_000] {
                        for address in addresses {
                            let sent: Vec<u8> = (0..size).map(|place| (place % 251) as u8).collect();
                            socket.send_to(&sent, address)?;
                            let (length, from) = socket
                                .recv_from(&mut buffer)
                                .map_err(|error| io::Error::new(error.kind(), format!("{size} bytes: {error}")))?;
                            assert_eq!(from, address);
                            assert!(buffer[..length] == sent, "{size} bytes came back changed");
                        }
                    }
                    Ok(())
                });
                join(client)?;
            }
            Ok(())
        });
    }
}

#[test]
fn bursts_of_datagrams_lose_few() {
    const COUNT: usize = 400;
    /// Fits into every socket's buffer on the way.
    const BURST: usize = 40;
    with_network(&[], |network| {
        tunnel(network, &OFFLOADED)?;
        let address = udp_echo(network, false)?;
        let client = network.inside(Side::Guest, move || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20)?;
            socket.set_read_timeout(Some(Duration::from_secs(2)))?;
            socket.connect(address)?;
            let mut seen = std::collections::HashSet::new();
            let mut buffer = [0; 2000];
            for burst in 0..COUNT / BURST {
                for number in 0..BURST {
                    let mut datagram = vec![0; 1200];
                    datagram[..8].copy_from_slice(&((burst * BURST + number) as u64).to_be_bytes());
                    socket.send(&datagram)?;
                }
                while seen.len() < (burst + 1) * BURST {
                    match socket.recv(&mut buffer) {
                        Ok(1200) => seen.insert(buffer[..8].to_vec()),
                        Ok(length) => panic!("a datagram of {length} bytes"),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    };
                }
            }
            assert!(seen.len() * 10 >= COUNT * 9, "{} of {COUNT} came back", seen.len());
            Ok(())
        });
        join(client)
    });
}

#[test]
fn echo_requests_are_answered() {
    with_network(&[], |network| {
        tunnel(network, &OFFLOADED)?;
        let client = network.inside(Side::Guest, || {
            use socket2::{Domain, Protocol, Socket, Type};
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
            let target: SocketAddr = (server(false), 0).into();
            // Type 8, code 0, its checksum, identification 0, sequence 0.
            socket.send_to(&[8, 0, 0xf7, 0xff, 0, 0, 0, 0], &target.into())?;
            let started = Instant::now();
            let mut socket = socket;
            let mut buffer = [0; 100];
            while started.elapsed() < Duration::from_secs(5) {
                let length = socket.read(&mut buffer)?;
                if length == 28 && buffer[20] == 0 {
                    assert_eq!(buffer[12..16], [10, 202, 0, 1]);
                    return Ok(());
                }
            }
            Err(io::Error::other("no answer"))
        });
        join(client)
    });
}
