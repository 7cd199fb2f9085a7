//! TUN mode measured against peers, after the hev-socks5-tunnel wiki: two namespaces, a SOCKS5
//! server and an iperf3 server on the host, four iperf3 cases in the guest. Systems are interleaved;
//! the figures to compare are ratios of medians. Needs root.
//!
//! `bench_tun [--seconds N] [--rounds N] [--mtu A,B] [--queues N] [--core PATH] [--output FILE]`.
//! Peers: `CULVERT_PEER_HEV_SOCKS5_TUNNEL`, `CULVERT_PEER_HEV_SOCKS5_SERVER` (else microsocks).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a person's terminal")]

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use culvert_tests::netns::{HOST_V4, Network, SERVER_V4, Side};
use culvert_tests::tun_relay::{Options, Way, start};
use serde_json::{Value, json};

const DEVICE: &str = "tun0";
const SOCKS_PORT: u16 = 1080;
const IPERF_PORT: u16 = 5201;
/// Name and arguments of iperf3.
const CASES: [(&str, &[&str]); 4] =
    [("1 up", &[]), ("10 up", &["-P", "10"]), ("1 down", &["-R"]), ("10 down", &["-R", "-P", "10"])];

#[derive(Debug, Clone, PartialEq, Eq)]
enum System {
    /// The veth pair alone.
    Veth,
    /// Culvert's TUN inbound, by itself, through the SOCKS5 server.
    Culvert,
    /// The whole core: `culvert-core run LINK --tun`.
    Core(PathBuf),
    /// hev-socks5-tunnel.
    Hev(PathBuf),
}

impl System {
    fn name(&self) -> &'static str {
        match self {
            Self::Veth => "veth, no tunnel",
            Self::Culvert => "culvert (TUN inbound)",
            Self::Core(_) => "culvert-core run --tun",
            Self::Hev(_) => "hev-socks5-tunnel",
        }
    }
}

struct Settings {
    seconds: u32,
    rounds: u32,
    mtus: Vec<u16>,
    queues: u16,
    core: Option<PathBuf>,
    output: Option<PathBuf>,
}

struct Sample {
    system: &'static str,
    mtu: u16,
    case: &'static str,
    gbits: f64,
    /// CPU seconds of the relay's process per GB carried; none without a relay.
    cpu_per_gb: Option<f64>,
    peak_rss_kib: Option<u64>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, mtu, queues] = arguments.as_slice()
        && first == "relay"
    {
        return relay(mtu, queues);
    }
    let settings = parse(&arguments)?;
    let systems = systems(&settings);
    let mut samples = Vec::new();
    for round in 0..settings.rounds {
        for &mtu in &settings.mtus {
            for system in &systems {
                eprintln!("round {}, MTU {mtu}: {}", round + 1, system.name());
                measure(&settings, system, mtu, &mut samples)?;
            }
        }
    }
    print(&settings, &systems, &samples);
    if let Some(path) = &settings.output {
        std::fs::write(path, serde_json::to_vec_pretty(&report(&settings, &samples))?)?;
    }
    Ok(())
}

/// Runs the inbound in this namespace until killed.
fn relay(mtu: &str, queues: &str) -> io::Result<()> {
    let server = format!("{HOST_V4}:{SOCKS_PORT}").parse().map_err(io::Error::other)?;
    let inbound = start(&Options {
        name: DEVICE.to_owned(),
        mtu: mtu.parse().map_err(io::Error::other)?,
        queues: queues.parse().map_err(io::Error::other)?,
        offloads: true,
        way: Way::Socks5(server),
    })?;
    println!("ready");
    while !inbound.has_failed() {
        std::thread::park_timeout(Duration::from_secs(1));
    }
    inbound.stop()
}

fn parse(arguments: &[String]) -> io::Result<Settings> {
    let mut settings = Settings { seconds: 4, rounds: 3, mtus: vec![8500, 1500], queues: 1, core: None, output: None };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| io::Error::other(format!("{name} needs a value")))?;
        let number = || value.parse().map_err(|error| io::Error::other(format!("{name}: {error}")));
        match name.as_str() {
            "--seconds" => settings.seconds = number()?,
            "--rounds" => settings.rounds = number()?,
            "--queues" => settings.queues = u16::try_from(number()?).map_err(io::Error::other)?,
            "--mtu" => {
                let mtus: Result<_, _> = value.split(',').map(str::parse).collect();
                settings.mtus = mtus.map_err(io::Error::other)?;
            }
            "--core" => settings.core = Some(value.into()),
            "--output" => settings.output = Some(value.into()),
            _ => return Err(io::Error::other(format!("unknown option {name}"))),
        }
    }
    Ok(settings)
}

fn peer(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_file());
    if path.is_none() {
        eprintln!("missing: set {variable} to compare with it");
    }
    path
}

fn systems(settings: &Settings) -> Vec<System> {
    let mut systems = vec![System::Veth];
    systems.extend(peer("CULVERT_PEER_HEV_SOCKS5_TUNNEL").map(System::Hev));
    systems.push(System::Culvert);
    // A core that can't open a device yet is left out.
    let offers_tun = |core: &PathBuf| {
        let help = Command::new(core).args(["run", "--help"]).output();
        help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--tun"))
    };
    systems.extend(settings.core.clone().filter(offers_tun).map(System::Core));
    systems
}

fn measure(settings: &Settings, system: &System, mtu: u16, samples: &mut Vec<Sample>) -> io::Result<()> {
    let mut network = Network::new()?;
    network.spawn(Side::Host, "iperf3", &["-s", "-p", &IPERF_PORT.to_string()])?;
    start_socks(&mut network)?;
    network.wait_for_listener(Side::Host, IPERF_PORT)?;
    network.wait_for_listener(Side::Host, SOCKS_PORT)?;
    let process = start_system(&mut network, settings, system, mtu)?;
    for (case, extra) in CASES {
        let seconds = settings.seconds.to_string();
        let mut arguments = vec!["-J", "-c", SERVER_V4, "-t", &seconds];
        arguments.extend(extra);
        let before = process.map(cpu_seconds).transpose()?;
        let text = network.run(Side::Guest, "iperf3", &arguments)?;
        let after = process.map(cpu_seconds).transpose()?;
        let result: Value = serde_json::from_str(&text)?;
        let received = &result["end"]["sum_received"];
        let (Some(bits), Some(bytes)) = (received["bits_per_second"].as_f64(), received["bytes"].as_f64()) else {
            return Err(io::Error::other(format!("iperf3 said nothing of use: {text}")));
        };
        samples.push(Sample {
            system: system.name(),
            mtu,
            case,
            gbits: bits / 1e9,
            cpu_per_gb: before.zip(after).map(|(before, after)| (after - before) / (bytes / 1e9)),
            peak_rss_kib: process.map(peak_rss).transpose()?,
        });
    }
    Ok(())
}

fn start_socks(network: &mut Network) -> io::Result<()> {
    if let Some(server) = std::env::var_os("CULVERT_PEER_HEV_SOCKS5_SERVER") {
        let configuration = format!(
            "main:\n  workers: 2\n  port: {SOCKS_PORT}\n  listen-address: '::'\n\
             misc:\n  log-level: error\n"
        );
        let file = write_temporary("server.yml", &configuration)?;
        network.spawn(Side::Host, &server.to_string_lossy(), &[&file.to_string_lossy()])?;
    } else {
        network.spawn(Side::Host, "microsocks", &["-q", "-p", &SOCKS_PORT.to_string()])?;
    }
    Ok(())
}

/// Starts the system and has the guest's traffic go through it. Returns the relay's process.
fn start_system(network: &mut Network, settings: &Settings, system: &System, mtu: u16) -> io::Result<Option<u32>> {
    let id = match system {
        System::Veth => return Ok(None),
        System::Culvert => {
            let own = std::env::current_exe()?;
            let (mtu, queues) = (mtu.to_string(), settings.queues.to_string());
            network.spawn_ready(Side::Guest, &own.to_string_lossy(), &["relay", &mtu, &queues])?
        }
        System::Core(core) => {
            let link = format!("socks5://{HOST_V4}:{SOCKS_PORT}");
            let id = network.spawn(Side::Guest, &core.to_string_lossy(), &["run", &link, "--tun"])?;
            // The core sets up its own routes.
            wait(|| {
                let route = network.run(Side::Guest, "ip", &["route", "get", SERVER_V4])?;
                Ok(!route.contains("dev veth0"))
            })?;
            return Ok(Some(id));
        }
        System::Hev(program) => {
            let configuration = format!(
                "tunnel:\n  name: {DEVICE}\n  mtu: {mtu}\n  multi-queue: false\n  ipv4: 198.18.0.1\n  \
                 ipv6: 'fc00::1'\nsocks5:\n  port: {SOCKS_PORT}\n  address: {HOST_V4}\n  udp: 'udp'\n\
                 misc:\n  log-level: error\n"
            );
            let file = write_temporary("tunnel.yml", &configuration)?;
            let arguments = [&*file.to_string_lossy()];
            network.spawn(Side::Guest, &program.to_string_lossy(), &arguments)?
        }
    };
    wait(|| Ok(network.ip(Side::Guest, &["link", "show", DEVICE, "up"]).is_ok()))?;
    network.route_into(DEVICE)?;
    Ok(Some(id))
}

fn write_temporary(name: &str, text: &str) -> io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("culvert-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    std::fs::write(&path, text)?;
    Ok(path)
}

fn wait(mut ready: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let limit = Instant::now() + Duration::from_secs(10);
    while !ready()? {
        if Instant::now() > limit {
            return Err(io::Error::other("the tunnel did not come up within ten seconds"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// User and system time that a process has used.
fn cpu_seconds(id: u32) -> io::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
        return Err(io::Error::other("a process's times can't be read"));
    };
    // USER_HZ has been 100 on every architecture for decades.
    Ok((user + system) / 100.0)
}

fn peak_rss(id: u32) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| io::Error::other("a process's memory can't be read"))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn medians(samples: &[Sample], system: &str, mtu: u16, case: &str) -> (Option<f64>, Option<f64>) {
    let chosen =
        || samples.iter().filter(move |sample| sample.system == system && sample.mtu == mtu && sample.case == case);
    (
        median(chosen().map(|sample| sample.gbits).collect()),
        median(chosen().filter_map(|sample| sample.cpu_per_gb).collect()),
    )
}

fn print(settings: &Settings, systems: &[System], samples: &[Sample]) {
    println!("Gbit/s (median), CPU-s/GB of the relay, peak RSS");
    for &mtu in &settings.mtus {
        println!("MTU {mtu}");
        for system in systems {
            print!("  {:<24}", system.name());
            for (case, _) in CASES {
                let (gbits, cpu) = medians(samples, system.name(), mtu, case);
                let cpu = cpu.map_or_else(|| "   -".to_owned(), |cpu| format!("{cpu:.2}"));
                print!("  {case:>7} {:>6.2} {cpu}", gbits.unwrap_or(f64::NAN));
            }
            let peak = samples
                .iter()
                .filter(|sample| sample.system == system.name() && sample.mtu == mtu)
                .filter_map(|sample| sample.peak_rss_kib)
                .max();
            println!("  {}", peak.map_or_else(String::new, |kib| format!("{:.1} MiB", kib as f64 / 1024.0)));
        }
    }
}

fn first_line(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

fn report(settings: &Settings, samples: &[Sample]) -> Value {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name\t: "));
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let rows: Vec<Value> = samples
        .iter()
        .map(|sample| {
            json!({
                "system": sample.system,
                "mtu": sample.mtu,
                "case": sample.case,
                "gbit_per_second": sample.gbits,
                "cpu_seconds_per_gb": sample.cpu_per_gb,
                "peak_rss_kib": sample.peak_rss_kib,
            })
        })
        .collect();
    json!({
        "kernel": first_line(Path::new("/proc/sys/kernel/osrelease")),
        "processor": model,
        "processors": processors,
        "version": env!("CARGO_PKG_VERSION"),
        "seconds": settings.seconds,
        "rounds": settings.rounds,
        "queues": settings.queues,
        "samples": rows,
    })
}
