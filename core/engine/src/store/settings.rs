//! Settings and other values by name.

use culvert_ipc::types::{NodeId, Settings};
use rusqlite::OptionalExtension;

use super::{Store, StoreError};

const SETTINGS: &str = "settings";
const LAST_NODE: &str = "last_node";

impl Store {
    fn value(&self, name: &str) -> Result<Option<String>, StoreError> {
        Ok(self
            .connection()
            .prepare_cached("SELECT value FROM values_by_name WHERE name = ?1")?
            .query_row([name], |row| row.get(0))
            .optional()?)
    }

    fn set_value(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.connection().execute(
            "INSERT INTO values_by_name (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            [name, value],
        )?;
        Ok(())
    }

    /// The settings; the defaults where nothing was stored.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn settings(&self) -> Result<Settings, StoreError> {
        match self.value(SETTINGS)? {
            Some(text) => {
                serde_json::from_str(&text).map_err(|error| StoreError::Damaged(format!("settings: {error}")))
            }
            None => Ok(Settings::default()),
        }
    }

    /// Keeps the settings.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn save_settings(&self, settings: &Settings) -> Result<(), StoreError> {
        let text = serde_json::to_string(settings).map_err(|error| StoreError::Damaged(error.to_string()))?;
        self.set_value(SETTINGS, &text)
    }

    /// The node that was last connected through.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn last_node(&self) -> Result<Option<NodeId>, StoreError> {
        Ok(self.value(LAST_NODE)?.and_then(|text| text.parse().ok()).map(NodeId))
    }

    /// Keeps the node that was last connected through.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn save_last_node(&self, node: NodeId) -> Result<(), StoreError> {
        self.set_value(LAST_NODE, &node.0.to_string())
    }
}
