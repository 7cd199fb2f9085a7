//! Nodes: what lists show in plain columns, the node itself sealed.

use std::collections::HashMap;

use culvert_ipc::types::{LatencySummary, NodeId, NodeRow, SpeedSummary, TestOutcome};
use culvert_profile::Node;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::seal::place;
use super::{Store, StoreError, now_ms};
use crate::summary::Summary;

/// How long a deleted node can be brought back, ms.
const UNDO_MS: u64 = 7 * 24 * 3_600 * 1_000;

/// A node to be added.
#[derive(Debug, Clone)]
pub struct NewNode {
    /// The node.
    pub node: Node,
    /// The subscription that brought it.
    pub subscription: Option<u32>,
}

/// A node out of the store.
#[derive(Debug, Clone)]
pub struct StoredNode {
    /// Number.
    pub id: NodeId,
    /// The node, secrets and all.
    pub node: Node,
}

const COLUMNS: &str = "id, name, address, port, protocol, security, transport, cipher, insecure, unsupported, \
                       favourite, subscription, added_ms";

fn row(row: &Row<'_>) -> rusqlite::Result<NodeRow> {
    let security: String = row.get(5)?;
    Ok(NodeRow {
        id: NodeId(row.get(0)?),
        name: row.get(1)?,
        address: row.get(2)?,
        port: row.get(3)?,
        protocol: row.get(4)?,
        security: Summary::security_of_word(&security),
        transport: row.get(6)?,
        cipher: row.get(7)?,
        insecure: row.get(8)?,
        unsupported: row.get(9)?,
        favourite: row.get(10)?,
        subscription: row.get(11)?,
        added_ms: row.get(12)?,
        locked: false,
        latency: None,
        speed: None,
        last_success_ms: None,
        history: Vec::new(),
    })
}

impl Store {
    /// Removes for good what was deleted long ago.
    pub(super) fn purge_deleted(&self) -> Result<(), StoreError> {
        let limit = now_ms().saturating_sub(UNDO_MS);
        self.connection().execute("DELETE FROM nodes WHERE deleted_ms < ?1", [limit])?;
        Ok(())
    }

    /// Adds nodes at the end of the list, all or none, and answers with their numbers.
    ///
    /// # Errors
    /// See [`StoreError`]; [`super::SealError::Key`] when there are sealed rows but no key.
    pub fn add_nodes(&self, nodes: &[NewNode]) -> Result<Vec<NodeId>, StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let nothing_sealed =
            !transaction.query_row("SELECT EXISTS (SELECT 1 FROM nodes)", [], |row| row.get::<_, bool>(0))?;
        let first: u32 = transaction
            .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'nodes'", [], |row| row.get(0))
            .optional()?
            .unwrap_or(0)
            + 1;
        let mut position: i64 =
            transaction.query_row("SELECT coalesce(max(position), 0) FROM nodes", [], |row| row.get(0))?;
        let added_ms = now_ms();
        let mut ids = Vec::with_capacity(nodes.len());
        for (id, new) in (first..).zip(nodes) {
            position += 1;
            let sealed = self.seal_node(id, &new.node, nothing_sealed)?;
            let summary = Summary::of(&new.node);
            transaction
                .prepare_cached(
                    "INSERT INTO nodes (id, position, name, address, port, protocol, security, transport, cipher,
                     insecure, unsupported, subscription, added_ms, sealed)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                )?
                .execute(params![
                    id,
                    position,
                    new.node.name,
                    new.node.address,
                    new.node.port,
                    summary.protocol,
                    summary.security_word(),
                    summary.transport,
                    summary.cipher,
                    summary.insecure,
                    new.node.unsupported,
                    new.subscription,
                    added_ms,
                    sealed
                ])?;
            ids.push(NodeId(id));
        }
        transaction.commit()?;
        Ok(ids)
    }

    /// Puts `node` in the place of the node `id`. False when there is none.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn replace_node(&self, id: NodeId, node: &Node) -> Result<bool, StoreError> {
        let sealed = self.seal_node(id.0, node, false)?;
        let summary = Summary::of(node);
        let changed = self.connection().execute(
            "UPDATE nodes SET name = ?2, address = ?3, port = ?4, protocol = ?5, security = ?6, transport = ?7,
             cipher = ?8, insecure = ?9, unsupported = ?10, sealed = ?11 WHERE id = ?1 AND deleted_ms IS NULL",
            params![
                id.0,
                node.name,
                node.address,
                node.port,
                summary.protocol,
                summary.security_word(),
                summary.transport,
                summary.cipher,
                summary.insecure,
                node.unsupported,
                sealed
            ],
        )?;
        Ok(changed > 0)
    }

    /// Marks a node as favourite, or not. False when there is none.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn set_favourite(&self, id: NodeId, favourite: bool) -> Result<bool, StoreError> {
        let changed = self.connection().execute(
            "UPDATE nodes SET favourite = ?2 WHERE id = ?1 AND deleted_ms IS NULL",
            params![id.0, favourite],
        )?;
        Ok(changed > 0)
    }

    /// Takes nodes off the list. Answers with those that were on it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete_nodes(&self, ids: &[NodeId]) -> Result<Vec<NodeId>, StoreError> {
        self.mark(ids, "UPDATE nodes SET deleted_ms = ?2 WHERE id = ?1 AND deleted_ms IS NULL", now_ms())
    }

    /// Brings deleted nodes back. Answers with those that came.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn restore_nodes(&self, ids: &[NodeId]) -> Result<Vec<NodeId>, StoreError> {
        self.mark(ids, "UPDATE nodes SET deleted_ms = NULL WHERE id = ?1 AND deleted_ms <= ?2", u64::MAX >> 1)
    }

    fn mark(&self, ids: &[NodeId], statement: &str, time: u64) -> Result<Vec<NodeId>, StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let mut marked = Vec::new();
        for id in ids {
            if transaction.prepare_cached(statement)?.execute(params![id.0, time])? > 0 {
                marked.push(*id);
            }
        }
        transaction.commit()?;
        Ok(marked)
    }

    /// How many nodes are on the list.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn count_nodes(&self) -> Result<u32, StoreError> {
        Ok(self.connection().query_row("SELECT count(*) FROM nodes WHERE deleted_ms IS NULL", [], |row| row.get(0))?)
    }

    /// Numbers of all nodes on the list that can be used, in its order.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn usable_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT id FROM nodes WHERE deleted_ms IS NULL AND unsupported IS NULL ORDER BY position, id",
        )?;
        let ids = statement.query_map([], |row| Ok(NodeId(row.get(0)?)))?.collect::<Result<_, _>>()?;
        Ok(ids)
    }

    /// A page of rows, and how many there are in all.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn list_nodes(&self, offset: u32, limit: u32, search: Option<&str>) -> Result<(u32, Vec<NodeRow>), StoreError> {
        let pattern = search.map(|text| {
            let text = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
            format!("%{text}%")
        });
        let filter = "deleted_ms IS NULL AND (?1 IS NULL OR name LIKE ?1 ESCAPE '\\' \
                      OR address LIKE ?1 ESCAPE '\\' OR protocol LIKE ?1 ESCAPE '\\')";
        let connection = self.connection();
        let total = connection
            .prepare_cached(&format!("SELECT count(*) FROM nodes WHERE {filter}"))?
            .query_row([&pattern], |row| row.get(0))?;
        let mut rows = connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM nodes WHERE {filter} ORDER BY position, id LIMIT ?2 OFFSET ?3"
            ))?
            .query_map(params![pattern, limit, offset], row)?
            .collect::<Result<Vec<_>, _>>()?;
        self.add_measurements(&connection, &mut rows)?;
        Ok((total, rows))
    }

    /// Rows of these nodes, as far as they are on the list.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn rows(&self, ids: &[NodeId]) -> Result<Vec<NodeRow>, StoreError> {
        let connection = self.connection();
        let mut rows = Vec::with_capacity(ids.len());
        {
            let mut statement = connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM nodes WHERE id = ?1 AND deleted_ms IS NULL"))?;
            for id in ids {
                rows.extend(statement.query_row([id.0], row).optional()?);
            }
        }
        self.add_measurements(&connection, &mut rows)?;
        Ok(rows)
    }

    fn add_measurements(&self, connection: &Connection, rows: &mut [NodeRow]) -> Result<(), StoreError> {
        let locked = self.locked().is_some();
        let mut statement = connection.prepare_cached(
            "SELECT kind, at_ms, value, CASE WHEN value IS NULL THEN outcome END FROM results
             WHERE node = ?1 ORDER BY at_ms, id",
        )?;
        for node in rows {
            node.locked = locked;
            let mut results = statement.query([node.id.0])?;
            while let Some(result) = results.next()? {
                let kind: String = result.get(0)?;
                let (at_ms, value): (u64, Option<f64>) = (result.get(1)?, result.get(2)?);
                let problem = result
                    .get::<_, Option<String>>(3)?
                    .and_then(|text| serde_json::from_str::<TestOutcome>(&text).ok())
                    .and_then(|outcome| match outcome {
                        TestOutcome::Failed(failed) => Some(failed.problem),
                        TestOutcome::Latency(_) | TestOutcome::Speed(_) => None,
                    });
                if value.is_some() {
                    node.last_success_ms = node.last_success_ms.max(Some(at_ms));
                }
                if kind == "latency" {
                    node.history.push(value);
                    node.latency = Some(LatencySummary { at_ms, median_ms: value, problem });
                } else {
                    node.speed = Some(SpeedSummary { at_ms, down_bytes_per_s: value, problem });
                }
            }
        }
        Ok(())
    }

    /// A node with its secrets; none when it is not on the list.
    ///
    /// # Errors
    /// See [`StoreError`]; [`StoreError::Seal`] when the node is locked.
    pub fn node(&self, id: NodeId) -> Result<Option<StoredNode>, StoreError> {
        let sealed: Option<Vec<u8>> = self
            .connection()
            .prepare_cached("SELECT sealed FROM nodes WHERE id = ?1 AND deleted_ms IS NULL")?
            .query_row([id.0], |row| row.get(0))
            .optional()?;
        sealed.map(|sealed| Ok(StoredNode { id, node: self.open_node(id.0, &sealed)? })).transpose()
    }

    /// All nodes on the list with their secrets, and those whose secrets can't be opened.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn all_nodes(&self) -> Result<(Vec<StoredNode>, Vec<NodeId>), StoreError> {
        let all: Vec<(u32, Vec<u8>)> = self
            .connection()
            .prepare_cached("SELECT id, sealed FROM nodes WHERE deleted_ms IS NULL ORDER BY position, id")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let mut nodes = Vec::with_capacity(all.len());
        let mut locked = Vec::new();
        for (id, sealed) in all {
            match self.open_node(id, &sealed) {
                Ok(node) => nodes.push(StoredNode { id: NodeId(id), node }),
                Err(StoreError::Seal(_)) => locked.push(NodeId(id)),
                Err(error) => return Err(error),
            }
        }
        Ok((nodes, locked))
    }

    /// Names of nodes, deleted ones too, for what is shown of old flows.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn names(&self, ids: &[NodeId]) -> Result<HashMap<NodeId, String>, StoreError> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached("SELECT name FROM nodes WHERE id = ?1")?;
        let mut names = HashMap::new();
        for id in ids {
            if let Some(name) = statement.query_row([id.0], |row| row.get(0)).optional()? {
                names.insert(*id, name);
            }
        }
        Ok(names)
    }

    fn seal_node(&self, id: u32, node: &Node, nothing_sealed: bool) -> Result<Vec<u8>, StoreError> {
        let text = zeroize::Zeroizing::new(
            serde_json::to_vec(node).map_err(|error| StoreError::Damaged(format!("node {id}: {error}")))?,
        );
        Ok(self.sealer.seal(&place("nodes", "sealed", id), &text, nothing_sealed)?)
    }

    fn open_node(&self, id: u32, sealed: &[u8]) -> Result<Node, StoreError> {
        let text = self.sealer.open(&place("nodes", "sealed", id), sealed)?;
        serde_json::from_slice(&text).map_err(|error| StoreError::Damaged(format!("node {id}: {error}")))
    }
}
