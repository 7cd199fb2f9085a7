//! The firewall (nf_tables): a guard on names while a tunnel is open, and the kill switch.

mod rules;

use std::io;

use super::netlink::{Body, Netlink};
use super::routing::{Prefix, interfaces};
use rules::{Chain, Hook, Match, Table, Verdict};

const KILL_SWITCH: &str = "culvert_kill_switch";
/// The table of the guard on names.
pub(super) const NAMES: &str = "culvert_names";
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;

/// What the kill switch does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillSwitchState {
    /// Nothing is kept back.
    Off,
    /// It is set, and a tunnel carries the traffic.
    Armed,
    /// It is set and there is no tunnel: nothing leaves but what it lets pass.
    Blocking,
}

/// Keeps everything on the machine that the tunnel does not carry. What passes: marked sockets,
/// the tunnel's device, loopback, DHCP, neighbour discovery, and the local network by choice.
/// It stays, whoever set it, until it is released (or the machine restarts).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillSwitch {
    /// The tunnel's device.
    pub device: String,
    /// The mark of the sockets that may pass.
    pub mark: u32,
    /// Prefixes that stay reachable (but for names: port 53 and 853).
    pub allowed: Vec<Prefix>,
}

impl KillSwitch {
    /// Sets it, or puts this one in the place of another in one step.
    ///
    /// # Errors
    /// No CAP_NET_ADMIN, or a kernel without nf_tables.
    pub fn arm(&self) -> io::Result<()> {
        let mut output = Chain::new("output", Hook::Output, Verdict::Drop);
        for pass in pass(&self.device, self.mark) {
            output.rule(pass, Verdict::Accept);
        }
        output.rule(vec![Match::Protocol(UDP), Match::Ports { source: 68, destination: 67 }], Verdict::Accept);
        output.rule(vec![Match::Protocol(UDP), Match::Ports { source: 546, destination: 547 }], Verdict::Accept);
        output.rule(vec![Match::Protocol(ICMP6), Match::IcmpType { first: 133, last: 136 }], Verdict::Accept);
        deny_names(&mut output);
        for prefix in &self.allowed {
            output.rule(vec![Match::Destination(*prefix)], Verdict::Accept);
        }
        let mut forward = Chain::new("forward", Hook::Forward, Verdict::Drop);
        forward.rule(vec![Match::Device(self.device.clone())], Verdict::Accept);
        forward.rule(vec![Match::FromDevice(self.device.clone())], Verdict::Accept);
        let table = Table { name: KILL_SWITCH, chains: vec![output, forward] };
        table.replace(&mut Netlink::netfilter()?)
    }

    /// Takes it away; none that is set is no error. This is the emergency release too.
    ///
    /// # Errors
    /// No CAP_NET_ADMIN.
    pub fn release() -> io::Result<()> {
        remove(KILL_SWITCH)
    }

    /// What it does now, where `device` is the tunnel's.
    ///
    /// # Errors
    /// The kernel can't be asked.
    pub fn state(device: &str) -> io::Result<KillSwitchState> {
        let set = Netlink::netfilter().and_then(|mut netlink| rules::exists(&mut netlink, KILL_SWITCH));
        if !without_nf_tables(set, false)? {
            return Ok(KillSwitchState::Off);
        }
        let tunnel = interfaces(&mut Netlink::route()?)?.iter().any(|(_, name)| name == device);
        Ok(if tunnel { KillSwitchState::Armed } else { KillSwitchState::Blocking })
    }
}

fn pass(device: &str, mark: u32) -> [Vec<Match>; 3] {
    [vec![Match::Device("lo".to_owned())], vec![Match::Mark(mark)], vec![Match::Device(device.to_owned())]]
}

fn deny_names(chain: &mut Chain) {
    for protocol in [UDP, TCP] {
        for port in [53, 853] {
            chain.rule(vec![Match::Protocol(protocol), Match::Port(port)], Verdict::Drop);
        }
    }
}

/// While a tunnel is open no question for a name leaves beside it, not even from a socket that is
/// bound to a physical device.
pub(super) fn guard_names(device: &str, mark: u32) -> io::Result<()> {
    let mut output = Chain::new("output", Hook::Output, Verdict::Accept);
    for pass in pass(device, mark) {
        output.rule(pass, Verdict::Accept);
    }
    deny_names(&mut output);
    let table = Table { name: NAMES, chains: vec![output] };
    table.replace(&mut Netlink::netfilter()?)
}

/// Takes a table away; one that is gone already is no error.
pub(super) fn remove(table: &str) -> io::Result<()> {
    let removed = Netlink::netfilter().and_then(|mut netlink| rules::delete(&mut netlink, table));
    without_nf_tables(removed, ())
}

/// A kernel without nf_tables has no table either.
fn without_nf_tables<T>(result: io::Result<T>, none: T) -> io::Result<T> {
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::EOPNOTSUPP | libc::EINVAL)) => {
            Ok(none)
        }
        other => other,
    }
}
