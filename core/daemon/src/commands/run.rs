//! `run`: a local proxy through one node, in the foreground, without a store; with `--tun` the
//! traffic of all programs too.

#[cfg(target_os = "linux")]
mod tunnel;

use std::pin::pin;
use std::sync::Arc;

use anyhow::Context;
use culvert_engine::flows::FlowTable;
use culvert_engine::leave::Way;
use culvert_engine::net::{Net, PortPlan};
use culvert_engine::real::RealNet;
use culvert_engine::router::Router;
use culvert_ipc::types::{Mode, NodeId, NodeRef};
use culvert_profile::Node;
use culvert_system::directories::Directories;
use culvert_system::system_proxy::{ProxyTarget, SystemProxy};

use crate::cli::RunArguments;
use crate::input::shown;
use crate::{input, logging, output};

pub(crate) async fn run(arguments: RunArguments, json: bool) -> anyhow::Result<bool> {
    logging::start(None, "warn");
    // Signals count from here on, so that none finds the tunnel half set up.
    let mut end = pin!(super::signal::end());
    tokio::select! {
        biased;
        () = &mut end => return Ok(true),
        () = std::future::ready(()) => {}
    }
    let node = node(&arguments.node)?;
    let mode = if arguments.global { Mode::Global } else { Mode::Rule };
    #[cfg(target_os = "linux")]
    let bypass = tunnel::bypass(arguments.tun)?;
    #[cfg(target_os = "linux")]
    let net = match &bypass {
        Some(bypass) => RealNet::new(bypass.dialer(node.as_ref()).await?),
        None => RealNet::default(),
    };
    #[cfg(not(target_os = "linux"))]
    let net = RealNet::default();
    #[cfg(not(target_os = "linux"))]
    if arguments.tun {
        anyhow::bail!("the TUN mode is there for Linux only so far; use --system-proxy here");
    }
    let (name, way) = way(node.as_ref(), &net)?;
    let router = Arc::new(Router::new(net.direct(), mode));
    router.set_way(Some(way));
    let flows = Arc::new(FlowTable::default());
    let plan = PortPlan { address: arguments.mixed, only_my_programs: !arguments.any_user };
    let port = net
        .open_port(plan, Arc::clone(&router), Arc::clone(&flows))
        .await
        .with_context(|| format!("the local proxy can't listen at {}", arguments.mixed))?;
    let address = port.address();
    #[cfg(target_os = "linux")]
    let tunnel = match &bypass {
        Some(bypass) => {
            let starting = tunnel::start(&arguments, bypass, router, flows);
            tokio::select! {
                tunnel = starting => Some(tunnel?),
                // What was opened is dropped, and so undone.
                () = &mut end => return Ok(true),
            }
        }
        None => None,
    };
    let mut system_proxy = None;
    if arguments.system_proxy {
        let directories = Directories::find()?;
        directories.create()?;
        let mut setting = SystemProxy::new(directories.state);
        setting.repair_at_start()?;
        setting.enable(&ProxyTarget::new(address.ip(), address.port()))?;
        system_proxy = Some(setting);
    }
    if json {
        let result = serde_json::json!({
            "mixed": address.to_string(),
            "node": name,
            "system_proxy": system_proxy.is_some(),
            "tun": arguments.tun,
            "pid": std::process::id(),
        });
        output::json(&result)?;
    } else {
        output::line(&address.to_string())?;
    }
    output::note(&format!("SOCKS and HTTP at {address} through {name}; Ctrl+C ends it"));
    #[cfg(target_os = "linux")]
    let outcome = tokio::select! {
        () = end => Ok(true),
        error = tunnel::failed(tunnel.as_ref()) => Err(error),
    };
    #[cfg(not(target_os = "linux"))]
    let outcome = {
        end.await;
        Ok(true)
    };
    if let Some(mut setting) = system_proxy {
        setting.disable()?;
    }
    #[cfg(target_os = "linux")]
    if let Some(tunnel) = tunnel {
        tunnel.close()?;
    }
    drop(port);
    outcome
}

/// The node that `wanted` names: the first usable one of a link or file; none for the word `direct`.
fn node(wanted: &str) -> anyhow::Result<Option<Node>> {
    if wanted == "direct" {
        return Ok(None);
    }
    let net = RealNet::default();
    let mut refused = None;
    for node in input::nodes(wanted)? {
        match net.through(&node) {
            Ok(_) => return Ok(Some(node)),
            Err(problem) => {
                refused.get_or_insert(problem.message);
            }
        }
    }
    anyhow::bail!("the node can't be used: {}", refused.unwrap_or_default())
}

/// The way through `node`, or directly, and its name.
fn way(node: Option<&Node>, net: &RealNet) -> anyhow::Result<(String, Way)> {
    let Some(node) = node else {
        return Ok(("direct".to_owned(), Way { node: None, leave: net.direct() }));
    };
    let name = shown(node);
    let leave = net.through(node).map_err(|problem| anyhow::anyhow!("the node can't be used: {}", problem.message))?;
    Ok((name.clone(), Way { node: Some(NodeRef { id: NodeId(1), name }), leave }))
}
