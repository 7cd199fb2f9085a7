//! The command line.

#[cfg(target_os = "linux")]
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

#[cfg(target_os = "linux")]
use crate::commands::bench::BenchArguments;

/// Culvert's core: a proxy client for the command line, and the service behind the app.
#[derive(Debug, Parser)]
#[command(name = "culvert-core", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Print results as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read links, a subscription or a configuration; print its nodes and what was skipped.
    Parse(ParseArguments),
    /// Run a local proxy through one node, in the foreground, without a store.
    Run(RunArguments),
    /// Run the service behind the app.
    Serve(ServeArguments),
    /// Call a method of the running service, or watch its events.
    Ctl(CtlArguments),
    /// Measure latency (and speed) of nodes.
    Probe(ProbeArguments),
    /// Run a demo server on this computer and print its share links.
    Demo(DemoArguments),
    /// Compare our client with the peers' own clients over loopback.
    #[cfg(target_os = "linux")]
    Bench(BenchArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ParseArguments {
    /// File to read; - or nothing for standard input.
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// A share link, or a file with one (the first node that can be used is taken), or the word direct.
    pub(crate) node: String,
    /// Address and port of the local proxy (SOCKS and HTTP).
    #[arg(long, default_value = "127.0.0.1:2080")]
    pub(crate) mixed: SocketAddr,
    /// Accept connections from other users of this computer too.
    #[arg(long)]
    pub(crate) any_user: bool,
    /// Send all flows through the node, private addresses too.
    #[arg(long)]
    pub(crate) global: bool,
    /// Set the system's proxy while running.
    #[arg(long)]
    pub(crate) system_proxy: bool,
    /// Send the traffic of all programs through the node (Linux; as root, with CAP_NET_ADMIN, or
    /// with culvert-helper installed). The local network stays outside unless --global is given.
    #[arg(long)]
    pub(crate) tun: bool,
    /// Resolver that all questions for names are put to, through the node, over TCP.
    #[cfg(target_os = "linux")]
    #[arg(long, default_value = "1.1.1.1", requires = "tun")]
    pub(crate) tun_dns: IpAddr,
    /// MTU of the device in bytes.
    #[cfg(target_os = "linux")]
    #[arg(long, default_value_t = 1_500, requires = "tun", value_parser = clap::value_parser!(u16).range(1_280..))]
    pub(crate) tun_mtu: u16,
    /// Page that must be reached through the tunnel before it counts as connected; otherwise all is
    /// put back and the command ends.
    #[cfg(target_os = "linux")]
    #[arg(long, requires = "tun")]
    pub(crate) check_url: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Folder of the store, instead of this user's.
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,
    /// Socket to listen at, instead of this user's.
    #[arg(long)]
    pub(crate) socket: Option<PathBuf>,
    /// Never touch the system's proxy setting.
    #[arg(long)]
    pub(crate) no_system_proxy: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CtlArguments {
    /// Socket of the service, instead of this user's.
    #[arg(long)]
    pub(crate) socket: Option<PathBuf>,
    /// End `watch` after so many events.
    #[arg(long)]
    pub(crate) count: Option<u64>,
    /// Method, such as nodes.list; or watch.
    pub(crate) method: String,
    /// Parameters as a JSON object; of watch a topic (state, nodes, traffic, connections, tests,
    /// logs; all when absent) or the name of an event.
    pub(crate) params: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// Share links or files of them.
    #[arg(required = true)]
    pub(crate) nodes: Vec<String>,
    /// Page that is fetched through each node.
    #[arg(long, default_value = "http://www.gstatic.com/generate_204")]
    pub(crate) url: String,
    /// Time for one node, ms.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(100..=120_000))]
    pub(crate) timeout: u32,
    /// Nodes tested at once.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) concurrency: u16,
    /// Measure download speed too, one node after the other.
    #[arg(long)]
    pub(crate) speed: bool,
    /// File that is downloaded for it.
    #[arg(long, default_value = "https://speed.cloudflare.com/__down?bytes=200000000")]
    pub(crate) speed_url: String,
    /// Time of one download, ms.
    #[arg(long, default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    pub(crate) speed_duration: u32,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Connect through each node, fetch a page from a local origin through the local proxy, print
    /// latency and throughput, and end.
    #[arg(long)]
    pub(crate) check: bool,
    /// Time of each download of --check, ms.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    pub(crate) duration: u32,
}
