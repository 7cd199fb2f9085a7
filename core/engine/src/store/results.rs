//! Results of tests: the last ones of each node.

use culvert_ipc::types::{NodeId, TestKind, TestOutcome, TestResult};
use rusqlite::{OptionalExtension, params};

use super::{Store, StoreError};

/// Results that are kept of each node and kind.
const KEPT: u32 = 20;

pub(super) fn kind_word(kind: TestKind) -> &'static str {
    match kind {
        TestKind::Latency => "latency",
        TestKind::Speed => "speed",
    }
}

/// Kind of a result, and its one figure (ms, or bytes per second) when there is one.
pub(super) fn figure(outcome: &TestOutcome) -> (TestKind, Option<f64>) {
    match outcome {
        TestOutcome::Latency(latency) => (TestKind::Latency, Some(latency.median_ms)),
        TestOutcome::Speed(speed) => (TestKind::Speed, Some(speed.down_bytes_per_s)),
        TestOutcome::Failed(failed) => (failed.kind, None),
    }
}

impl Store {
    /// Keeps results, all or none. Those of nodes that are gone are passed over.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn add_results(&self, results: &[TestResult]) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO results (node, kind, at_ms, value, outcome)
                 SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM nodes WHERE id = ?1)",
            )?;
            let mut trim = transaction.prepare_cached(
                "DELETE FROM results WHERE node = ?1 AND kind = ?2 AND id NOT IN
                 (SELECT id FROM results WHERE node = ?1 AND kind = ?2 ORDER BY at_ms DESC, id DESC LIMIT ?3)",
            )?;
            for result in results {
                let (kind, value) = figure(&result.outcome);
                let text =
                    serde_json::to_string(&result.outcome).map_err(|error| StoreError::Damaged(error.to_string()))?;
                insert.execute(params![result.node.0, kind_word(kind), result.at_ms, value, text])?;
                trim.execute(params![result.node.0, kind_word(kind), KEPT])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// The last result of a node.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn last_result(&self, node: NodeId, kind: TestKind) -> Result<Option<TestResult>, StoreError> {
        let found: Option<(u64, String)> = self
            .connection()
            .prepare_cached(
                "SELECT at_ms, outcome FROM results WHERE node = ?1 AND kind = ?2 ORDER BY at_ms DESC, id DESC LIMIT 1",
            )?
            .query_row(params![node.0, kind_word(kind)], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        found
            .map(|(at_ms, text)| {
                let outcome =
                    serde_json::from_str(&text).map_err(|error| StoreError::Damaged(format!("result: {error}")))?;
                Ok(TestResult { node, at_ms, outcome })
            })
            .transpose()
    }
}
