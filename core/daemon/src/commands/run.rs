//! `run`: a local proxy through one node, in the foreground, without a store.

use std::sync::Arc;

use anyhow::Context;
use culvert_engine::flows::FlowTable;
use culvert_engine::leave::Way;
use culvert_engine::net::{Net, PortPlan};
use culvert_engine::real::RealNet;
use culvert_engine::router::Router;
use culvert_ipc::types::{Mode, NodeId, NodeRef};
use culvert_system::directories::Directories;
use culvert_system::system_proxy::{ProxyTarget, SystemProxy};

use crate::cli::RunArguments;
use crate::input::shown;
use crate::{input, logging, output};

pub(crate) async fn run(arguments: RunArguments, json: bool) -> anyhow::Result<bool> {
    logging::start(None, "warn");
    let net = RealNet::default();
    let (name, way) = way(&arguments.node, &net)?;
    let mode = if arguments.global { Mode::Global } else { Mode::Rule };
    let router = Arc::new(Router::new(net.direct(), mode));
    router.set_way(Some(way));
    let plan = PortPlan { address: arguments.mixed, only_my_programs: !arguments.any_user };
    let port = net
        .open_port(plan, router, Arc::new(FlowTable::default()))
        .await
        .with_context(|| format!("the local proxy can't listen at {}", arguments.mixed))?;
    let address = port.address();
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
            "pid": std::process::id(),
        });
        output::json(&result)?;
    } else {
        output::line(&address.to_string())?;
    }
    output::note(&format!("SOCKS and HTTP at {address} through {name}; Ctrl+C ends it"));
    super::signal::end().await;
    if let Some(mut setting) = system_proxy {
        setting.disable()?;
    }
    drop(port);
    Ok(true)
}

/// The way that `wanted` names: the word `direct`, or the first usable node of a link or file.
fn way(wanted: &str, net: &RealNet) -> anyhow::Result<(String, Way)> {
    if wanted == "direct" {
        return Ok((wanted.to_owned(), Way { node: None, leave: net.direct() }));
    }
    let mut refused = None;
    for node in &input::nodes(wanted)? {
        match net.through(node) {
            Ok(leave) => {
                let name = shown(node);
                let way = Way { node: Some(NodeRef { id: NodeId(1), name: name.clone() }), leave };
                return Ok((name, way));
            }
            Err(problem) => {
                refused.get_or_insert(problem.message);
            }
        }
    }
    anyhow::bail!("the node can't be used: {}", refused.unwrap_or_default())
}
