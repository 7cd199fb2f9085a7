//! A tunnel that owns the machine's traffic: device, routes, rules, names; all of it undone when
//! the tunnel goes.

mod resolver;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::firewall;
use super::journal::{Change, Journal};
use super::netlink::Netlink;
use super::routing::{self, Family, Prefix, Rule};
use super::tun::{TunDevice, TunError, TunOffloads, TunOptions};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// More excluded prefixes than this are refused: each is a rule that every packet passes.
pub const MAX_EXCLUDED: usize = 256;

/// What the tunnel shall carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelPlan {
    /// The device. Its name is taken as it stands (no `%d`).
    pub device: TunOptions,
    /// The mark of the sockets that pass beside the tunnel; not 0. See `protect`.
    pub mark: u32,
    /// Prefixes that stay outside of the tunnel (at most `MAX_EXCLUDED`), but for names.
    pub excluded: Vec<Prefix>,
    /// Whether everything that the main table reaches by a route of its own (the local network,
    /// other tunnels) stays outside of the tunnel, but for names.
    pub local_direct: bool,
    /// The resolver that applications are given; `None` leaves the resolver's file alone. Whatever
    /// it is, questions to port 53 go into the tunnel.
    pub resolver: Option<IpAddr>,
}

/// Where things are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The folder of the journal, of the one who opens tunnels only; made if it is absent.
    pub journal: PathBuf,
    /// The resolver's file.
    pub resolver: PathBuf,
}

impl Places {
    /// The machine's own resolver file, and this folder for the journal.
    #[must_use]
    pub fn with_journal(journal: &Path) -> Self {
        Self { journal: journal.to_owned(), resolver: PathBuf::from("/etc/resolv.conf") }
    }
}

/// Why a tunnel can't be opened, closed or repaired.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// The plan can't be carried out.
    #[error("the tunnel can't be opened: {0}")]
    Plan(&'static str),
    /// Another tunnel is open.
    #[error("another process holds a tunnel (its journal is {0}); close that one first")]
    Held(PathBuf),
    /// The journal can't be read or written; without it nothing is changed.
    #[error("the journal in {folder} can't be used: {source}")]
    Journal {
        /// The journal's folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The device can't be made.
    #[error(transparent)]
    Device(#[from] TunError),
    /// The system refuses a step.
    #[error("the tunnel: {step} failed: {source}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

fn step<T>(step: &'static str, result: io::Result<T>) -> Result<T, TunnelError> {
    result.map_err(|source| TunnelError::Step { step, source })
}

/// An open tunnel. Everything that it changed is undone when it is closed or dropped; what someone
/// else changed in between stays.
#[derive(Debug)]
pub struct Tunnel {
    /// The device's interface index.
    pub index: u32,
    /// The device's name.
    pub name: String,
    /// The device's MTU.
    pub mtu: u16,
    /// What the kernel takes over, the same for each queue.
    pub offloads: TunOffloads,
    /// Whether the firewall drops questions for names that leave beside the tunnel (from sockets
    /// bound to a device). False where the kernel has no nf_tables.
    pub names_guarded: bool,
    queues: Vec<OwnedFd>,
    ledger: Ledger,
}

impl Tunnel {
    /// Repairs what an earlier tunnel left, then opens this one. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// A bad plan, another tunnel, or a step that the system refuses; then all is as before.
    pub fn open(plan: &TunnelPlan, places: &Places) -> Result<Self, TunnelError> {
        check(plan)?;
        let mut ledger = Ledger::open(places)?;
        ledger.undo()?;
        // Whatever fails from here on is undone when the ledger is dropped.
        let device = make_device(plan, &mut ledger)?;
        let families = enable_v6(plan, &device, &mut ledger)?;
        for family in families.iter().copied() {
            step("adding the tunnel's route", routing::add_default(&mut ledger.netlink, family, device.index))?;
        }
        loosen_reverse_path(&mut ledger)?;
        let names_guarded = guard_names(plan, &mut ledger)?;
        for rule in rules(plan, &families) {
            ledger.write(&Change::Rule(rule.bytes().to_vec()))?;
            step("adding a rule", rule.add(&mut ledger.netlink))?;
        }
        if let Some(address) = plan.resolver {
            point_resolver(address, &mut ledger)?;
        }
        Ok(Self {
            index: device.index,
            name: device.name,
            mtu: device.mtu,
            offloads: device.offloads,
            names_guarded,
            queues: device.queues,
            ledger,
        })
    }

    /// The device's queues, for whoever moves the packets: non-blocking, one for each shard. Only
    /// the first call gets them; the caller must keep or close them.
    pub fn take_queues(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.queues)
    }

    /// Undoes everything.
    ///
    /// # Errors
    /// A step that the system refuses. The others are undone all the same, and the journal keeps
    /// what is left for the next repair.
    pub fn close(mut self) -> Result<(), TunnelError> {
        self.queues.clear();
        self.ledger.undo()
    }
}

/// Undoes what a tunnel left that was never closed; nothing to undo is no error.
///
/// # Errors
/// A tunnel is open, or a step that the system refuses.
pub fn repair(places: &Places) -> Result<(), TunnelError> {
    Ledger::open(places)?.undo()
}

/// What the machine's routes, rules, interfaces, settings and resolver are, one a line and sorted,
/// without what changes by itself: two dumps are equal when nothing was left behind.
///
/// # Errors
/// The system can't be asked.
pub fn dump(places: &Places) -> io::Result<Vec<String>> {
    let mut lines = routing::dump(&mut Netlink::route()?)?;
    for path in reverse_path_files()? {
        let value = fs::read_to_string(&path)?;
        lines.push(format!("setting {} {}", path.display(), value.trim()));
    }
    let link = fs::read_link(&places.resolver).ok();
    let text = fs::read(&places.resolver).ok();
    lines.push(format!("resolver {link:?} {text:?}"));
    Ok(lines)
}

fn check(plan: &TunnelPlan) -> Result<(), TunnelError> {
    if plan.device.name.contains('%') {
        return Err(TunnelError::Plan("its device needs a fixed name"));
    }
    if plan.mark == 0 {
        return Err(TunnelError::Plan("the mark of protected sockets can't be 0"));
    }
    if plan.excluded.len() > MAX_EXCLUDED {
        return Err(TunnelError::Plan("it excludes more than 256 prefixes"));
    }
    Ok(())
}

fn make_device(plan: &TunnelPlan, ledger: &mut Ledger) -> Result<TunDevice, TunnelError> {
    let interfaces = step("listing the interfaces", routing::interfaces(&mut ledger.netlink))?;
    if interfaces.iter().any(|(_, name)| *name == plan.device.name) {
        return Err(TunnelError::Plan("a network interface with the name of its device is there already"));
    }
    ledger.write(&Change::Device(plan.device.name.clone()))?;
    let mut options = plan.device.clone();
    // IPv6 may have to be enabled on the device first.
    options.addresses.retain(|(address, _)| address.is_ipv4());
    Ok(TunDevice::open(&options)?)
}

/// Gives the device its IPv6 addresses, unless the machine has IPv6 switched off.
fn enable_v6(plan: &TunnelPlan, device: &TunDevice, ledger: &mut Ledger) -> Result<Vec<Family>, TunnelError> {
    let everywhere = fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6");
    if everywhere.map_or(true, |value| value.trim() != "0") {
        return Ok(vec![Family::V4]);
    }
    let own = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", device.name);
    if fs::read_to_string(&own).is_ok_and(|value| value.trim() != "0") {
        step("enabling IPv6 on the device", fs::write(&own, "0"))?;
    }
    for (address, bits) in &plan.device.addresses {
        if let IpAddr::V6(address) = address {
            step(
                "setting the device's IPv6 address",
                routing::add_v6(&mut ledger.netlink, device.index, *address, *bits),
            )?;
        }
    }
    Ok(vec![Family::V4, Family::V6])
}

/// In the order of their priorities, so that nothing is caught that a later one would let pass.
fn rules(plan: &TunnelPlan, families: &[Family]) -> Vec<Rule> {
    let mut rules = Vec::new();
    for family in families.iter().copied() {
        rules.push(Rule::marked(family, plan.mark));
        for prefix in &plan.excluded {
            if prefix.address().is_ipv4() == (family == Family::V4) {
                rules.push(Rule::excluded(*prefix));
            }
        }
        if plan.local_direct {
            rules.push(Rule::specific(family));
        }
        for protocol in [UDP, TCP] {
            rules.push(Rule::names(family, protocol));
        }
        rules.push(Rule::rest(family));
    }
    rules.dedup_by(|a, b| a.bytes() == b.bytes());
    rules
}

fn reverse_path_files() -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir("/proc/sys/net/ipv4/conf")? {
        let file = entry?.path().join("rp_filter");
        if file.exists() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Answers to protected sockets come by a link that is not the way back in the eyes of a strict
/// reverse-path filter, since the mark is not on them. The largest of `all` and the link's own
/// value counts, so one setting is enough, also for a link that comes later.
fn loosen_reverse_path(ledger: &mut Ledger) -> Result<(), TunnelError> {
    let files = step("listing the reverse-path filters", reverse_path_files())?;
    let strict = files.iter().any(|file| fs::read_to_string(file).is_ok_and(|value| value.trim() == "1"));
    let path = "/proc/sys/net/ipv4/conf/all/rp_filter";
    let before = step("reading the reverse-path filter", fs::read_to_string(path))?;
    if !strict || before.trim() == "2" {
        return Ok(());
    }
    ledger.write(&Change::Setting {
        path: path.to_owned(),
        before: before.trim().to_owned(),
        after: "2".to_owned(),
    })?;
    step("loosening the reverse-path filter", fs::write(path, "2"))
}

fn guard_names(plan: &TunnelPlan, ledger: &mut Ledger) -> Result<bool, TunnelError> {
    ledger.write(&Change::Firewall(firewall::NAMES.to_owned()))?;
    match firewall::guard_names(&plan.device.name, plan.mark) {
        Ok(()) => Ok(true),
        Err(error) => {
            tracing::warn!("names of sockets bound to a device are not guarded: {error}");
            Ok(false)
        }
    }
}

fn point_resolver(address: IpAddr, ledger: &mut Ledger) -> Result<(), TunnelError> {
    let file = ledger.places.resolver.clone();
    let planned = step("reading the resolver's file", resolver::plan(&file, address))?;
    let Some(change) = planned else { return Ok(()) };
    ledger.write(&change)?;
    step("writing the resolver's file", resolver::apply(&file, &change))
}

/// What was changed, oldest first, and how to undo it.
#[derive(Debug)]
struct Ledger {
    netlink: Netlink,
    journal: Journal,
    places: Places,
}

impl Ledger {
    fn open(places: &Places) -> Result<Self, TunnelError> {
        let journal = Journal::open(&places.journal).map_err(|source| {
            if source.kind() == io::ErrorKind::WouldBlock {
                TunnelError::Held(places.journal.clone())
            } else {
                TunnelError::Journal { folder: places.journal.clone(), source }
            }
        })?;
        Ok(Self { netlink: step("opening a netlink socket", Netlink::route())?, journal, places: places.clone() })
    }

    fn journal_error(&self, source: io::Error) -> TunnelError {
        TunnelError::Journal { folder: self.places.journal.clone(), source }
    }

    fn write(&mut self, change: &Change) -> Result<(), TunnelError> {
        self.journal.write(change).map_err(|source| self.journal_error(source))
    }

    /// Undoes everything that the journal lists, newest first, and forgets it when all went well.
    fn undo(&mut self) -> Result<(), TunnelError> {
        let (changes, restarted) = self.journal.read().map_err(|source| self.journal_error(source))?;
        if changes.is_empty() {
            return Ok(());
        }
        let mut failed = None;
        for change in changes.iter().rev() {
            if restarted && !change.lasts() {
                continue;
            }
            if let Err(source) = self.undo_one(change) {
                tracing::warn!("undoing {change:?} failed: {source}");
                failed = Some(source);
            }
        }
        match failed {
            None => self.journal.clear().map_err(|source| self.journal_error(source)),
            Some(source) => Err(TunnelError::Step { step: "undoing a change (the next repair tries again)", source }),
        }
    }

    fn undo_one(&mut self, change: &Change) -> io::Result<()> {
        match change {
            Change::Device(name) => {
                let interfaces = routing::interfaces(&mut self.netlink)?;
                match interfaces.iter().find(|(_, known)| known == name) {
                    Some((index, _)) => routing::delete_interface(&mut self.netlink, *index),
                    None => Ok(()),
                }
            }
            Change::Rule(bytes) => Rule::from_bytes(bytes).remove(&mut self.netlink),
            Change::Setting { path, before, after } => match fs::read_to_string(path) {
                Ok(now) if now.trim() == after => fs::write(path, before),
                Ok(_) => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            },
            Change::Resolver { .. } => resolver::undo(&self.places.resolver, change),
            Change::Firewall(table) => firewall::remove(table),
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            tracing::error!(journal = %self.journal.place().display(), "{error}");
        }
    }
}
