//! One caller's connection: its requests, and its lease on the tunnel.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use culvert_helper_protocol as protocol;
use culvert_helper_protocol::{Answer, MARK, MAX_MESSAGE, Opened, Report, Request};
use culvert_system_privileged::linux::Prefix;
use culvert_system_privileged::linux::channel::Channel;
use culvert_system_privileged::linux::firewall::{KillSwitch, KillSwitchState};
use culvert_system_privileged::linux::protect;
use culvert_system_privileged::linux::tun::TunOptions;
use culvert_system_privileged::linux::tunnel::{Tunnel, TunnelPlan};

use crate::service::Settings;

/// How long a caller who does not read is waited for.
const SEND_PATIENCE: Duration = Duration::from_secs(2);

/// Says why a connection is not served; whoever does not read it misses it.
pub(crate) fn refuse(channel: &Channel, reason: &str) {
    let answer = Answer::Failed { reason: reason.to_owned() };
    let _ = channel.send(&answer.encode(), &[]);
}

/// Serves a caller until the connection ends, however it ends; then the tunnel is undone.
pub(crate) fn run(channel: &Channel, user: u32, settings: &Settings) {
    let mut lease: Option<Tunnel> = None;
    if channel.set_send_patience(SEND_PATIENCE).is_err() {
        return;
    }
    loop {
        let Ok(packet) = channel.receive(MAX_MESSAGE) else {
            return;
        };
        if packet.bytes.is_empty() {
            return;
        }
        let (answer, queues) = match Request::decode(&packet.bytes) {
            Ok(request) => handle(request, &packet.descriptors, user, settings, &mut lease),
            Err(error) => {
                // Whoever sends such a thing is not our core, or not of our version.
                refuse(channel, &error.to_string());
                return;
            }
        };
        let beside: Vec<_> = queues.iter().map(AsFd::as_fd).collect();
        if channel.send(&answer.encode(), &beside).is_err() {
            return;
        }
    }
}

fn handle(
    request: Request,
    descriptors: &[OwnedFd],
    user: u32,
    settings: &Settings,
    lease: &mut Option<Tunnel>,
) -> (Answer, Vec<OwnedFd>) {
    let answer = match request {
        Request::Open(open) => return start(&open, user, settings, lease),
        Request::Close => match lease.take() {
            Some(tunnel) => answer(tunnel.close()),
            None => Answer::Done,
        },
        Request::Protect => match descriptors {
            [socket] => answer(protect::mark(socket, MARK)),
            _ => failed("one socket must be beside the request"),
        },
        Request::ArmKillSwitch(allowed) => {
            let switch = KillSwitch { device: settings.device.clone(), mark: MARK, allowed: prefixes(&allowed) };
            answer(switch.arm())
        }
        Request::ReleaseKillSwitch => answer(KillSwitch::release()),
        Request::Report => match KillSwitch::state(&settings.device) {
            Ok(state) => Answer::Report(Report {
                open: lease.is_some(),
                kill_switch: match state {
                    KillSwitchState::Off => protocol::KillSwitch::Off,
                    KillSwitchState::Armed => protocol::KillSwitch::Armed,
                    KillSwitchState::Blocking => protocol::KillSwitch::Blocking,
                },
            }),
            Err(error) => failed(&error.to_string()),
        },
    };
    (answer, Vec::new())
}

/// Opens the tunnel for the caller's user, who alone may attach queues to its device.
fn start(open: &protocol::Open, user: u32, settings: &Settings, lease: &mut Option<Tunnel>) -> (Answer, Vec<OwnedFd>) {
    if lease.is_some() {
        return (failed("this connection has a tunnel already"), Vec::new());
    }
    let plan = TunnelPlan {
        device: TunOptions {
            name: settings.device.clone(),
            mtu: open.mtu,
            queues: u16::from(open.queues),
            addresses: open.addresses.clone(),
            owner: Some(user),
        },
        mark: MARK,
        excluded: prefixes(&open.excluded),
        local_direct: open.local_direct,
        resolver: open.resolver,
    };
    match Tunnel::open(&plan, &settings.places) {
        Ok(mut tunnel) => {
            let queues = tunnel.take_queues();
            let opened = Opened {
                index: tunnel.index,
                mtu: tunnel.mtu,
                checksum: tunnel.offloads.checksum,
                tcp_segmentation: tunnel.offloads.tcp_segmentation,
                udp_segmentation: tunnel.offloads.udp_segmentation,
                names_guarded: tunnel.names_guarded,
            };
            *lease = Some(tunnel);
            (Answer::Opened(opened), queues)
        }
        Err(error) => (failed(&error.to_string()), Vec::new()),
    }
}

fn prefixes(prefixes: &[protocol::Prefix]) -> Vec<Prefix> {
    prefixes.iter().filter_map(|(address, bits)| Prefix::new(*address, *bits)).collect()
}

fn answer<E: std::fmt::Display>(result: Result<(), E>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(reason: &str) -> Answer {
    Answer::Failed { reason: reason.to_owned() }
}
