//! The socket's methods.

use culvert_ipc::types::*;
use culvert_ipc::{Core, ErrorCode, Event, PROTOCOL_VERSION, RpcError};
use culvert_profile::{export, qr};
use data_encoding::BASE64;

use super::Engine;
use crate::store::now_ms;

/// The most lines of the log in one answer.
const MAX_LOG_LINES: u32 = 2_000;

impl Core for Engine {
    async fn system_hello(&self, params: HelloParams) -> Result<Hello, RpcError> {
        let client: String = params.client.chars().filter(|c| !c.is_control()).take(80).collect();
        tracing::debug!("{client} says hello (version {} of the interface)", params.protocol_version);
        Ok(Hello {
            protocol_version: PROTOCOL_VERSION,
            core_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            compatible: params.protocol_version == PROTOCOL_VERSION,
        })
    }

    async fn system_shutdown(&self, _: Nothing) -> Result<Nothing, RpcError> {
        self.stop().await;
        self.shutdown.notify_one();
        Ok(Nothing {})
    }

    async fn state_snapshot(&self, _: Nothing) -> Result<Snapshot, RpcError> {
        let nodes = self.stored(super::Store::count_nodes).await?;
        let demo = self.demo_status().await;
        Ok(Snapshot {
            core_version: env!("CARGO_PKG_VERSION").to_owned(),
            connection: self.status(),
            settings: self.settings.lock().clone(),
            traffic: self.traffic(),
            nodes,
            tests: self.runs.active(),
            store: StoreStatus {
                key_place: self.store.key_place().map(|place| place.word().to_owned()),
                locked: self.store.locked(),
            },
            demo,
        })
    }

    async fn nodes_list(&self, params: NodesListParams) -> Result<NodesPage, RpcError> {
        self.list(params).await
    }

    async fn nodes_get(&self, params: NodeParams) -> Result<NodeDetail, RpcError> {
        self.detail(params.node).await
    }

    async fn nodes_link(&self, params: NodeParams) -> Result<NodeLink, RpcError> {
        Ok(NodeLink { link: export::link(&self.secret_node(params.node).await?) })
    }

    async fn nodes_update(&self, params: NodeUpdateParams) -> Result<NodeRow, RpcError> {
        self.update(params).await
    }

    async fn nodes_delete(&self, params: NodesParams) -> Result<NodesChanged, RpcError> {
        let deleted = self.stored(move |store| store.delete_nodes(&params.nodes)).await?;
        let count = u32::try_from(deleted.len()).unwrap_or(u32::MAX);
        self.tell_nodes(Vec::new(), deleted).await;
        Ok(NodesChanged { count })
    }

    async fn nodes_restore(&self, params: NodesParams) -> Result<NodesChanged, RpcError> {
        let restored = self.stored(move |store| store.restore_nodes(&params.nodes)).await?;
        let count = u32::try_from(restored.len()).unwrap_or(u32::MAX);
        self.tell_nodes(restored, Vec::new()).await;
        Ok(NodesChanged { count })
    }

    async fn import_preview(&self, params: ImportPreviewParams) -> Result<ImportPreview, RpcError> {
        self.preview(params.text).await
    }

    async fn import_commit(&self, params: ImportCommitParams) -> Result<ImportCommitted, RpcError> {
        self.commit(params).await
    }

    async fn export_nodes(&self, params: ExportParams) -> Result<Exported, RpcError> {
        self.export(params).await
    }

    async fn connection_connect(&self, params: ConnectParams) -> Result<ConnectionStatus, RpcError> {
        self.connect(params).await
    }

    async fn connection_disconnect(&self, _: Nothing) -> Result<ConnectionStatus, RpcError> {
        Ok(self.disconnect().await)
    }

    async fn connection_status(&self, _: Nothing) -> Result<ConnectionStatus, RpcError> {
        Ok(self.status())
    }

    async fn proxy_set(&self, params: ProxySetParams) -> Result<ConnectionStatus, RpcError> {
        self.set_system_proxy(params.system_proxy).await
    }

    async fn mode_set(&self, params: ModeParams) -> Result<ConnectionStatus, RpcError> {
        self.set_mode(params.mode).await
    }

    async fn traffic_get(&self, _: Nothing) -> Result<Traffic, RpcError> {
        Ok(self.traffic())
    }

    async fn connections_list(&self, params: ConnectionsListParams) -> Result<ConnectionsPage, RpcError> {
        let (open, rows) = self.flows.rows(params.ended);
        Ok(ConnectionsPage { open, rows })
    }

    async fn connections_close(&self, params: ConnectionsCloseParams) -> Result<ConnectionsClosed, RpcError> {
        Ok(ConnectionsClosed { count: self.flows.close(params.ids.as_deref()) })
    }

    async fn connections_trace(&self, params: ConnectionParams) -> Result<ConnectionTrace, RpcError> {
        self.flows.trace(params.id).ok_or_else(|| {
            RpcError::new(ErrorCode::NotFound, format!("there is no flow {} (any more)", params.id))
                .with("what", "connection")
        })
    }

    async fn tests_start(&self, params: TestsStartParams) -> Result<TestRun, RpcError> {
        self.start_tests(params).await
    }

    async fn tests_cancel(&self, params: TestsCancelParams) -> Result<Nothing, RpcError> {
        if self.runs.cancel(params.run) {
            Ok(Nothing {})
        } else {
            Err(RpcError::new(ErrorCode::NotFound, format!("there is no run {} of tests (any more)", params.run))
                .with("what", "tests"))
        }
    }

    async fn settings_get(&self, _: Nothing) -> Result<Settings, RpcError> {
        Ok(self.settings.lock().clone())
    }

    async fn settings_set(&self, patch: SettingsPatch) -> Result<Settings, RpcError> {
        self.patch_settings(patch).await
    }

    async fn settings_reset(&self, _: Nothing) -> Result<Settings, RpcError> {
        self.reset_settings().await
    }

    async fn logs_tail(&self, params: LogsTailParams) -> Result<LogLines, RpcError> {
        Ok(LogLines { lines: self.logs.tail(params.lines.min(MAX_LOG_LINES) as usize) })
    }

    async fn qr_encode(&self, params: NodeParams) -> Result<QrCode, RpcError> {
        let link = export::link(&self.secret_node(params.node).await?);
        let svg = qr::svg(&link).map_err(|error| {
            RpcError::new(ErrorCode::TooLarge, error.to_string()).with("what", "link").with("limit", 2_900)
        })?;
        Ok(QrCode { svg })
    }

    async fn qr_decode(&self, params: QrDecodeParams) -> Result<QrDecoded, RpcError> {
        let refuse = |reason: String| RpcError::new(ErrorCode::InvalidParams, reason.clone()).with("problem", reason);
        let grey = BASE64
            .decode(params.grey_base64.as_bytes())
            .map_err(|_| refuse("the pixels are no base64 text".to_owned()))?;
        let look = move || qr::decode(&grey, params.width as usize, params.height as usize);
        let texts = tokio::task::spawn_blocking(look)
            .await
            .map_err(|error| refuse(error.to_string()))?
            .map_err(|error| refuse(error.to_string()))?;
        Ok(QrDecoded { texts })
    }

    async fn demo_start(&self, _: Nothing) -> Result<DemoStatus, RpcError> {
        {
            let mut demo = self.demo.lock().await;
            if demo.is_none() {
                let started = self.net.start_demo().await.map_err(|error| {
                    RpcError::new(ErrorCode::PortTaken, format!("the demo server can't be started: {error}"))
                        .with("reason", error)
                })?;
                *demo = Some(started);
            }
        }
        Ok(self.tell_demo().await)
    }

    async fn demo_stop(&self, _: Nothing) -> Result<DemoStatus, RpcError> {
        self.demo.lock().await.take();
        Ok(self.tell_demo().await)
    }

    async fn doctor_run(&self, _: Nothing) -> Result<Checks, RpcError> {
        Ok(self.check_up().await)
    }
}

impl Engine {
    fn traffic(&self) -> Traffic {
        let (up_bytes, down_bytes, open) = self.flows.totals();
        Traffic { at_ms: now_ms(), up_bytes, down_bytes, open, ..Traffic::default() }
    }

    async fn demo_status(&self) -> DemoStatus {
        match &*self.demo.lock().await {
            Some(demo) => DemoStatus { running: true, links: demo.links() },
            None => DemoStatus::default(),
        }
    }

    async fn tell_demo(&self) -> DemoStatus {
        let status = self.demo_status().await;
        self.publisher.publish(&Event::Demo(status.clone()));
        status
    }
}
