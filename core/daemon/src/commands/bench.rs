//! `culvert-core bench`: the loopback benchmark of protocols, after V2Ray's own method
//! (generator → client → server → receiver). Our client and the peer's own client stand in turn in
//! front of the same peer's server, interleaved, in one run.

mod chains;
mod load;
mod process;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::output;
use chains::{Chain, Side};
use load::{Direction, Target};
use process::{Program, free_port};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BenchArguments {
    /// Only rows whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds; ours and the peer's take turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    connections: Vec<usize>,
    /// Also write the figures as JSON to this file.
    #[arg(long)]
    output: Option<PathBuf>,
}

/// One cell: a chain, a direction, a number of connections, one client.
#[derive(Debug, Clone, Serialize)]
struct Cell {
    chain: String,
    client: String,
    direction: &'static str,
    connections: usize,
    /// 10⁶ bytes a second, median of the rounds.
    megabytes_per_second: f64,
    /// CPU seconds of the client for 10⁹ bytes, median.
    client_cpu_per_gigabyte: f64,
    /// CPU seconds of the server for 10⁹ bytes, median; absent where there is no server.
    server_cpu_per_gigabyte: Option<f64>,
    /// The share of one core that the server used, median.
    server_core_share: Option<f64>,
    /// The client's peak memory, MiB.
    client_peak_mib: f64,
}

/// First bytes of new connections.
#[derive(Debug, Clone, Serialize)]
struct FirstByte {
    chain: String,
    client: String,
    /// Microseconds.
    p50: u64,
    /// Microseconds.
    p99: u64,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    machine: String,
    kernel: String,
    cells: Vec<Cell>,
    first_bytes: Vec<FirstByte>,
    not_compared: Vec<String>,
}

/// Runs the benchmark. A slow figure is no failure; a chain that breaks is.
pub(crate) fn run(arguments: &BenchArguments, json: bool) -> anyhow::Result<bool> {
    let core = std::env::current_exe().context("cannot find this program's own file")?;
    let folder = std::env::temp_dir().join(format!("culvert-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let outcome = measure_all(arguments, &core, &folder);
    // Nothing in it is of use afterwards.
    let _ = std::fs::remove_dir_all(&folder);
    let (report, whole) = outcome?;
    if let Some(path) = &arguments.output {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if json {
        output::json(&report)?;
    } else {
        output::line(&table(&report))?;
    }
    Ok(whole)
}

fn measure_all(arguments: &BenchArguments, core: &Path, folder: &Path) -> anyhow::Result<(Report, bool)> {
    let file = load::random_file().context("cannot make the file that is sent")?;
    let target = Target::start(&file).context("cannot open the receiver")?;
    let mut report = Report { machine: machine(), kernel: kernel(), ..Report::default() };
    let mut whole = true;
    for chain in chains::all() {
        if arguments.only.as_ref().is_some_and(|only| !chain.name.contains(only.as_str())) {
            continue;
        }
        if let Some(missing) = chain.missing() {
            report.not_compared.push(format!("{}: {missing} is not installed", chain.name));
            continue;
        }
        output::note(&format!("measuring {}", chain.name));
        if let Err(error) = measure(&chain, arguments, core, folder, &file, &target, &mut report) {
            output::note(&format!("{} broke: {error:#}", chain.name));
            whole = false;
        }
    }
    Ok((report, whole))
}

fn measure(
    chain: &Chain,
    arguments: &BenchArguments,
    core: &Path,
    folder: &Path,
    file: &Arc<File>,
    target: &Target,
    report: &mut Report,
) -> anyhow::Result<()> {
    let server_address = free_port()?;
    let server = match chain.server(server_address, folder)? {
        Some(command) => Some(
            Program::start(command, server_address, &folder.join("server.log"))
                .with_context(|| format!("the server of {} did not start", chain.peer()))?,
        ),
        None => None,
    };
    let start = |side: Side| -> anyhow::Result<Program> {
        let listen = free_port()?;
        let command = chain.client(side, core, listen, server_address, folder)?;
        Program::start(command, listen, &folder.join("client.log"))
            .with_context(|| format!("the client ({side:?}) of {} did not start", chain.name))
    };
    let clients = [(Side::Ours, start(Side::Ours)?), (Side::Peer, start(Side::Peer)?)];
    let name = |side: Side| match side {
        Side::Ours => "culvert".to_owned(),
        Side::Peer => chain.peer().to_owned(),
    };
    for (side, client) in &clients {
        let times = load::first_bytes(client.address, target, 200)
            .with_context(|| format!("short connections through {}", name(*side)))?;
        let at = |share: usize| times.get((times.len() - 1) * share / 100).copied().unwrap_or_default();
        report.first_bytes.push(FirstByte { chain: chain.name.clone(), client: name(*side), p50: at(50), p99: at(99) });
    }
    for &connections in &arguments.connections {
        for direction in [Direction::Up, Direction::Down] {
            let mut samples: [Vec<[f64; 4]>; 2] = Default::default();
            for _ in 0..arguments.rounds.max(1) {
                for (place, (side, client)) in clients.iter().enumerate() {
                    let sample = sample(client, server.as_ref(), arguments, connections, direction, target, file)
                        .with_context(|| format!("{connections} connections {direction:?} through {}", name(*side)))?;
                    samples[place].push(sample);
                }
            }
            for ((side, client), samples) in clients.iter().zip(samples) {
                let median = |field: usize| {
                    let mut values: Vec<f64> = samples.iter().map(|sample| sample[field]).collect();
                    values.sort_by(f64::total_cmp);
                    values.get(values.len() / 2).copied().unwrap_or_default()
                };
                report.cells.push(Cell {
                    chain: chain.name.clone(),
                    client: name(*side),
                    direction: if direction == Direction::Up { "up" } else { "down" },
                    connections,
                    megabytes_per_second: median(0),
                    client_cpu_per_gigabyte: median(1),
                    server_cpu_per_gigabyte: server.as_ref().map(|_| median(2)),
                    server_core_share: server.as_ref().map(|_| median(3)),
                    client_peak_mib: client.peak_mib()?,
                });
            }
        }
    }
    Ok(())
}

/// MB/s, client CPU-s/GB, server CPU-s/GB, server's share of a core.
fn sample(
    client: &Program,
    server: Option<&Program>,
    arguments: &BenchArguments,
    connections: usize,
    direction: Direction,
    target: &Target,
    file: &Arc<File>,
) -> anyhow::Result<[f64; 4]> {
    let server_cpu = || server.map_or(Ok(0.0), Program::cpu_seconds);
    let (client_before, server_before) = (client.cpu_seconds()?, server_cpu()?);
    let started = std::time::Instant::now();
    let time = Duration::from_secs_f64(arguments.seconds);
    let bytes = load::transfer(client.address, target, file, direction, connections, time)? as f64;
    let elapsed = started.elapsed().as_secs_f64();
    let (client_used, server_used) = (client.cpu_seconds()? - client_before, server_cpu()? - server_before);
    anyhow::ensure!(bytes > 0.0, "no bytes arrived");
    let gigabytes = bytes / 1e9;
    Ok([bytes / 1e6 / elapsed, client_used / gigabytes, server_used / gigabytes, server_used / elapsed])
}

fn table(report: &Report) -> String {
    let mut lines = vec![
        format!("{}, kernel {}", report.machine, report.kernel),
        String::new(),
        "| chain | way | ours MB/s | peer MB/s | ratio | ours CPU-s/GB | peer CPU-s/GB | ratio | server core | ours MiB | peer MiB |".into(),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |".into(),
    ];
    for pair in report.cells.chunks_exact(2) {
        let [ours, peer] = pair else { continue };
        lines.push(format!(
            "| {} | {} {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {:.1} | {:.1} |",
            ours.chain,
            ours.connections,
            ours.direction,
            ours.megabytes_per_second,
            peer.megabytes_per_second,
            ours.megabytes_per_second / peer.megabytes_per_second,
            ours.client_cpu_per_gigabyte,
            peer.client_cpu_per_gigabyte,
            ours.client_cpu_per_gigabyte / peer.client_cpu_per_gigabyte,
            ours.server_core_share.map_or_else(|| "–".into(), |share| format!("{:.0} %", share * 100.0)),
            ours.client_peak_mib,
            peer.client_peak_mib,
        ));
    }
    lines.push(String::new());
    lines.push("| chain | first byte, ours p50 (p99) µs | peer p50 (p99) µs |".into());
    lines.push("| --- | --- | --- |".into());
    for pair in report.first_bytes.chunks_exact(2) {
        let [ours, peer] = pair else { continue };
        lines.push(format!("| {} | {} ({}) | {} ({}) |", ours.chain, ours.p50, ours.p99, peer.p50, peer.p99));
    }
    lines.extend(report.not_compared.iter().map(|line| format!("not compared: {line}")));
    lines.join("\n")
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches(['\t', ' ', ':']));
    format!("{} × {model}", std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}
