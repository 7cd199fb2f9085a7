//! `serve`: the service behind the app.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use culvert_engine::keys::SystemKeys;
use culvert_engine::logs::LogBuffer;
use culvert_engine::real::RealNet;
use culvert_engine::store::Store;
use culvert_engine::{Engine, Parts};
use culvert_ipc::Publisher;
use culvert_ipc::socket::Listener;
use culvert_system::directories::Directories;
use culvert_system::system_proxy::{Repair, SystemProxy};

use crate::cli::ServeArguments;
use crate::{logging, output, place};

pub(crate) async fn run(arguments: ServeArguments, json: bool) -> anyhow::Result<bool> {
    let publisher = Publisher::default();
    let logs = LogBuffer::new(publisher.clone());
    logging::start(Some(logs.clone()), "warn");
    let directories = Directories::find()?;
    directories.create()?;
    let data = arguments.data.unwrap_or_else(|| directories.data.clone());
    let socket = arguments.socket.unwrap_or_else(|| place::socket(&directories));

    let store = Store::open(&data, Arc::new(SystemKeys::new(&data)))?;
    let listener =
        Listener::bind(&socket).await.with_context(|| format!("the socket {} can't be opened", socket.display()))?;
    let system_proxy = if arguments.no_system_proxy { None } else { repaired(directories.state.clone()) };
    let engine = Engine::start(Parts {
        store,
        net: Arc::new(RealNet::default()),
        system_proxy,
        logs,
        publisher: publisher.clone(),
    })?;
    if json {
        output::json(&serde_json::json!({ "listening": socket, "pid": std::process::id() }))?;
    }
    output::note(&format!("listening at {}", socket.display()));
    tracing::info!("the core is ready");

    let served = culvert_ipc::server::serve(listener, Arc::clone(&engine), publisher);
    let ended: anyhow::Result<()> = tokio::select! {
        served = served => served.context("the socket failed"),
        () = engine.shutdown_asked() => {
            // The answer to the one who asked is still on its way.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            Ok(())
        }
        () = super::signal::end() => Ok(()),
    };
    engine.stop().await;
    ended.map(|()| true)
}

/// The system's proxy setting, after what a power cut left has been put back. Where nothing was
/// left this reads one small file.
fn repaired(state: PathBuf) -> Option<SystemProxy> {
    let mut system_proxy = SystemProxy::new(state);
    match system_proxy.repair_at_start() {
        Ok(Repair::Nothing) => {}
        Ok(Repair::HeldByOther) => tracing::warn!("another core holds the system's proxy setting"),
        Ok(Repair::Restored(restored)) => {
            tracing::warn!("put back {} values of the system's proxy setting that were left behind", restored.values);
        }
        Ok(Repair::Damaged { .. }) => tracing::warn!("the journal of the system's proxy setting was damaged"),
        Err(error) => tracing::warn!("the system's proxy setting can't be checked: {error}"),
    }
    Some(system_proxy)
}
