//! Nodes: lists, changes, import and export.

use culvert_ipc::types::{
    ExportFormat, ExportParams, Exported, ImportCommitParams, ImportCommitted, ImportPreview, ImportStatus, NodeDetail,
    NodeId, NodeRef, NodeRow, NodeUpdateParams, NodesListParams, NodesPage, TestKind, TestRun, TestsStartParams,
};
use culvert_ipc::{ErrorCode, RpcError};
use culvert_profile::{Node, export, parse_link};
use std::time::Duration;

use super::{Engine, no_such_node};
use crate::fetch::Page;
use crate::import::{self, MAX_TEXT, Previewed};
use crate::measure::{LatencyPlan, SpeedPlan};
use crate::runs::{Plan, Subject, locked};
use crate::store::{NewNode, StoreError};
use crate::summary::fields;

/// Rows in a page when nothing else is said, and the most.
const PAGE_ROWS: u32 = 500;
const MAX_PAGE_ROWS: u32 = 2_000;
/// The longest name, in characters.
const MAX_NAME: usize = 200;

impl Engine {
    pub(super) async fn list(&self, params: NodesListParams) -> Result<NodesPage, RpcError> {
        let limit = params.limit.unwrap_or(PAGE_ROWS).clamp(1, MAX_PAGE_ROWS);
        let (total, rows) =
            self.stored(move |store| store.list_nodes(params.offset, limit, params.search.as_deref())).await?;
        Ok(NodesPage { total, rows })
    }

    pub(super) async fn detail(&self, id: NodeId) -> Result<NodeDetail, RpcError> {
        let (row, node, latency, speed) = self
            .stored(move |store| {
                let node = match store.node(id) {
                    Ok(found) => found.map(|stored| stored.node),
                    Err(StoreError::Seal(_)) => None,
                    Err(error) => return Err(error),
                };
                let latency = store.last_result(id, TestKind::Latency)?;
                let speed = store.last_result(id, TestKind::Speed)?;
                Ok((store.rows(&[id])?.pop(), node, latency, speed))
            })
            .await?;
        let row = row.ok_or_else(|| no_such_node(id))?;
        Ok(NodeDetail { row, fields: node.as_ref().map(fields).unwrap_or_default(), latency, speed })
    }

    /// A node with its secrets.
    pub(super) async fn secret_node(&self, id: NodeId) -> Result<Node, RpcError> {
        let found = self.stored(move |store| store.node(id)).await?;
        Ok(found.ok_or_else(|| no_such_node(id))?.node)
    }

    pub(super) async fn update(&self, params: NodeUpdateParams) -> Result<NodeRow, RpcError> {
        let id = params.node;
        let mut changed = match &params.link {
            Some(link) => Some(parse_link(link).map_err(|error| {
                RpcError::new(ErrorCode::NothingUsable, error.reason.clone()).with("reason", error.reason)
            })?),
            None => None,
        };
        if let Some(name) = params.name {
            let name: String = name.trim().chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
            let mut node = match changed {
                Some(node) => node,
                None => self.secret_node(id).await?,
            };
            node.name = name;
            changed = Some(node);
        }
        let row = self
            .stored(move |store| {
                if let Some(node) = changed {
                    store.replace_node(id, &node)?;
                }
                if let Some(favourite) = params.favourite {
                    store.set_favourite(id, favourite)?;
                }
                Ok(store.rows(&[id])?.pop())
            })
            .await?
            .ok_or_else(|| no_such_node(id))?;
        self.tell_nodes(vec![id], Vec::new()).await;
        Ok(row)
    }

    pub(super) async fn preview(&self, text: String) -> Result<ImportPreview, RpcError> {
        Ok(self.look_at(text).await?.preview)
    }

    async fn look_at(&self, text: String) -> Result<Previewed, RpcError> {
        if text.len() > MAX_TEXT {
            return Err(RpcError::new(ErrorCode::TooLarge, "the text is longer than 4 MiB")
                .with("what", "text")
                .with("limit", MAX_TEXT));
        }
        self.stored(move |store| {
            let (present, _locked) = store.all_nodes()?;
            Ok(import::preview(&text, &present))
        })
        .await
    }

    pub(super) async fn commit(&self, params: ImportCommitParams) -> Result<ImportCommitted, RpcError> {
        let Previewed { preview, mut nodes } = self.look_at(params.text).await?;
        let wanted = params.rows.unwrap_or_else(|| {
            let ready = preview.rows.iter().filter(|row| row.status == ImportStatus::Ready);
            ready.map(|row| row.index).collect()
        });
        let mut refused = Vec::new();
        let mut new = Vec::new();
        for index in wanted {
            match nodes.get_mut(index as usize).and_then(Option::take) {
                Some(node) => new.push(NewNode { node, subscription: None }),
                None => refused.push(index),
            }
        }
        if new.is_empty() {
            return Ok(ImportCommitted { nodes: Vec::new(), refused });
        }
        let added = self.stored(move |store| store.add_nodes(&new)).await?;
        self.tell_nodes(added.clone(), Vec::new()).await;
        Ok(ImportCommitted { nodes: added, refused })
    }

    pub(super) async fn export(&self, params: ExportParams) -> Result<Exported, RpcError> {
        self.stored(move |store| {
            let (all, locked) = store.all_nodes()?;
            let asked = |id: &NodeId| params.nodes.as_ref().is_none_or(|ids| ids.contains(id));
            let nodes: Vec<Node> =
                all.into_iter().filter(|stored| asked(&stored.id)).map(|stored| stored.node).collect();
            let left: Vec<NodeId> = locked.into_iter().filter(asked).collect();
            let mut names = store.names(&left)?;
            let left_out =
                left.into_iter().map(|id| NodeRef { id, name: names.remove(&id).unwrap_or_default() }).collect();
            let text = match params.format {
                ExportFormat::Links => export::links(&nodes),
                ExportFormat::Base64 => export::base64_subscription(&nodes),
                ExportFormat::Json => {
                    serde_json::to_string_pretty(&nodes).map_err(|error| StoreError::Damaged(error.to_string()))?
                }
            };
            Ok(Exported { text, count: u32::try_from(nodes.len()).unwrap_or(u32::MAX), left_out })
        })
        .await
    }

    pub(super) async fn start_tests(&self, params: TestsStartParams) -> Result<TestRun, RpcError> {
        let settings = self.settings.lock().clone();
        let page = |url: &str| {
            Page::parse(url)
                .map_err(|reason| RpcError::new(ErrorCode::InvalidSetting, reason.clone()).with("reason", reason))
        };
        let (plan, concurrency) = match params.kind {
            TestKind::Latency => {
                let limit = Duration::from_millis(settings.test_timeout_ms.into());
                let plan = LatencyPlan { page: page(&settings.test_url)?, status: settings.test_status, limit };
                (Plan::Latency(plan), settings.test_concurrency)
            }
            TestKind::Speed => {
                let plan = SpeedPlan {
                    page: page(&settings.speed_url)?,
                    duration: Duration::from_millis(settings.speed_duration_ms.into()),
                    limit_bytes: settings.speed_limit_bytes,
                    connect_limit: Duration::from_millis(settings.test_timeout_ms.into()),
                };
                (Plan::Speed(plan), 1)
            }
        };
        let net = std::sync::Arc::clone(&self.net);
        let subjects = self
            .stored(move |store| {
                let ids = match params.nodes {
                    Some(ids) => ids,
                    None => store.usable_nodes()?,
                };
                let mut subjects = Vec::with_capacity(ids.len());
                for node in ids {
                    let way = match store.node(node) {
                        Ok(Some(stored)) => net.through(&stored.node),
                        Ok(None) => continue,
                        Err(StoreError::Seal(_)) => Err(locked()),
                        Err(error) => return Err(error),
                    };
                    subjects.push(Subject { node, way });
                }
                Ok(subjects)
            })
            .await?;
        if subjects.is_empty() {
            return Err(RpcError::new(ErrorCode::NothingUsable, "there is no node to test").with("reason", "no node"));
        }
        self.runs
            .start(subjects, plan, concurrency)
            .ok_or_else(|| RpcError::new(ErrorCode::Busy, "other tests are under way").with("what", "tests"))
    }
}
