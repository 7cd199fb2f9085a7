//! The engine: everything that the socket's methods act on.

mod connect;
mod doctor;
mod nodes;
mod rpc;
mod settings;
mod ticker;

use std::path::PathBuf;
use std::sync::Arc;

use culvert_ipc::event::NodesDelta;
use culvert_ipc::types::{ConnectionStatus, NodeId, Settings};
use culvert_ipc::{ErrorCode, Event, Publisher, RpcError};
use culvert_system::system_proxy::SystemProxy;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::flows::FlowTable;
use crate::logs::LogBuffer;
use crate::net::{DemoServer, Net, Port};
use crate::router::Router;
use crate::runs::Runs;
use crate::store::{SealError, Store, StoreError};

pub(crate) use settings::MAX_CONCURRENCY;

/// Above so many changed rows, readers are told to read the list again.
const MAX_DELTA_ROWS: usize = 200;

/// What an engine is made of.
pub struct Parts {
    /// The open store.
    pub store: Store,
    /// The net.
    pub net: Arc<dyn Net>,
    /// The system's proxy setting; none where it must not be touched.
    pub system_proxy: Option<SystemProxy>,
    /// The log.
    pub logs: LogBuffer,
    /// Who hears of changes.
    pub publisher: Publisher,
}

/// The engine. All methods of the socket are calls on it.
pub struct Engine {
    store: Arc<Store>,
    net: Arc<dyn Net>,
    publisher: Publisher,
    logs: LogBuffer,
    flows: Arc<FlowTable>,
    router: Arc<Router>,
    settings: Mutex<Settings>,
    status: Mutex<ConnectionStatus>,
    /// One switch at a time; holds the open port.
    switching: tokio::sync::Mutex<Option<Box<dyn Port>>>,
    /// Rung to give up a connection under way.
    cancel: Mutex<tokio_util::sync::CancellationToken>,
    system_proxy: Arc<Mutex<Option<SystemProxy>>>,
    runs: Runs,
    demo: tokio::sync::Mutex<Option<Box<dyn DemoServer>>>,
    shutdown: Notify,
}

impl Engine {
    /// Puts an engine together. Spawns what measures rates, so it must be called within a runtime.
    ///
    /// # Errors
    /// When the settings can't be read.
    pub fn start(parts: Parts) -> Result<Arc<Self>, StoreError> {
        let settings = parts.store.settings()?;
        let store = Arc::new(parts.store);
        let status = ConnectionStatus { mode: settings.mode, ..ConnectionStatus::default() };
        let engine = Arc::new(Self {
            router: Arc::new(Router::new(parts.net.direct(), settings.mode)),
            runs: Runs::new(Arc::clone(&store), parts.publisher.clone()),
            store,
            net: parts.net,
            logs: parts.logs,
            flows: Arc::default(),
            settings: Mutex::new(settings),
            status: Mutex::new(status),
            switching: tokio::sync::Mutex::new(None),
            cancel: Mutex::default(),
            system_proxy: Arc::new(Mutex::new(parts.system_proxy)),
            demo: tokio::sync::Mutex::new(None),
            shutdown: Notify::new(),
            publisher: parts.publisher,
        });
        tokio::spawn(ticker::run(Arc::downgrade(&engine), engine.publisher.clone(), Arc::clone(&engine.flows)));
        Ok(engine)
    }

    /// Waits until someone asks the core to end (`system.shutdown`).
    pub async fn shutdown_asked(&self) {
        self.shutdown.notified().await;
    }

    /// Ends flows, closes the port, puts the system's settings back.
    pub async fn stop(&self) {
        self.disconnect().await;
        self.demo.lock().await.take();
    }

    /// The data folder.
    pub fn folder(&self) -> PathBuf {
        self.store.folder().to_owned()
    }

    /// Runs a call of the store where it may block.
    async fn stored<T, F>(&self, call: F) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || call(&store))
            .await
            .map_err(|error| RpcError::new(ErrorCode::Internal, format!("a call of the store broke: {error}")))?
            .map_err(|error| of_store(&error))
    }

    /// Tells all readers that these nodes changed.
    async fn tell_nodes(&self, changed: Vec<NodeId>, removed: Vec<NodeId>) {
        let event = if changed.len() + removed.len() > MAX_DELTA_ROWS {
            Event::NodesReload
        } else {
            match self.stored(move |store| store.rows(&changed)).await {
                Ok(changed) => Event::Nodes(NodesDelta { changed, removed }),
                Err(_) => Event::NodesReload,
            }
        };
        self.publisher.publish(&event);
    }
}

/// An error of the store as the socket tells it.
pub(crate) fn of_store(error: &StoreError) -> RpcError {
    let code = match error {
        StoreError::Seal(SealError::Key(_) | SealError::Refused) => ErrorCode::NodeLocked,
        StoreError::Held { .. }
        | StoreError::Newer { .. }
        | StoreError::Folder { .. }
        | StoreError::Database(_)
        | StoreError::Seal(SealError::Random)
        | StoreError::Damaged(_) => ErrorCode::Storage,
    };
    RpcError::new(code, error.to_string()).with("reason", error)
}

fn no_such_node(node: NodeId) -> RpcError {
    RpcError::new(ErrorCode::NodeNotFound, format!("there is no node {}", node.0)).with("node", node.0)
}
