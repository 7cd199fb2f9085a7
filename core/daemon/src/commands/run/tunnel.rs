//! The TUN mode of `run`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use culvert_engine::fetch::Page;
use culvert_engine::flows::FlowTable;
use culvert_engine::router::Router;
use culvert_engine::tunnel::{self, Bypass, RunningTunnel, TunnelSettings};
use culvert_system::directories::Directories;

use crate::cli::RunArguments;
use crate::input::BadUsage;
use crate::output;

/// Time for the check; with the undoing it stays below ten seconds.
const CHECK_WITHIN: Duration = Duration::from_secs(8);
/// How often the device is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The way beside the tunnel, if one is wanted. Puts back first what a run that was killed left.
pub(super) fn bypass(wanted: bool) -> anyhow::Result<Option<Bypass>> {
    let directories = Directories::find()?;
    let journal = directories.state.join("tunnel");
    if !wanted {
        if let Err(error) = tunnel::repair(&journal) {
            tracing::warn!("what an earlier tunnel changed is not put back: {error}");
        }
        return Ok(None);
    }
    directories.create()?;
    let bypass = Bypass::find(&journal)?;
    if bypass.is_own() {
        tunnel::repair(&journal)?;
    }
    Ok(Some(bypass))
}

/// Opens the tunnel, and checks it where a page for that is given.
pub(super) async fn start(
    arguments: &RunArguments,
    bypass: &Bypass,
    router: Arc<Router>,
    flows: Arc<FlowTable>,
) -> anyhow::Result<RunningTunnel> {
    let page = arguments.check_url.as_deref().map(Page::parse).transpose().map_err(BadUsage)?;
    let settings = TunnelSettings { names: arguments.tun_dns, local_direct: !arguments.global, mtu: arguments.tun_mtu };
    let tunnel = RunningTunnel::start(&settings, bypass, router, flows)?;
    let Some(page) = page else {
        output::note("the tunnel is open (not checked: no --check-url)");
        return Ok(tunnel);
    };
    match tunnel::check(&page, CHECK_WITHIN).await {
        Ok(()) => {
            output::note("connected: a page came through the tunnel");
            Ok(tunnel)
        }
        Err(problem) => {
            tunnel.close().context("the tunnel does not work, and closing it failed")?;
            anyhow::bail!("no page came through the tunnel, all is as before: {}", problem.message)
        }
    }
}

/// Waits for the tunnel to break.
pub(super) async fn failed(tunnel: Option<&RunningTunnel>) -> anyhow::Error {
    let Some(tunnel) = tunnel else { return std::future::pending().await };
    while !tunnel.has_failed() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    anyhow::anyhow!("the TUN device has gone or broken; the tunnel is closed")
}
