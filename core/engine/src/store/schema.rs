//! The form of the database and how older ones become it. A migration is never edited once it has
//! been released; a new one is added.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::StoreError;

/// Step `n` (from 0) makes form `n + 1` out of form `n`.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE nodes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        address TEXT NOT NULL,
        port INTEGER NOT NULL,
        protocol TEXT NOT NULL,
        security TEXT NOT NULL,
        transport TEXT NOT NULL,
        cipher TEXT,
        insecure INTEGER NOT NULL,
        unsupported TEXT,
        favourite INTEGER NOT NULL DEFAULT 0,
        subscription INTEGER,
        added_ms INTEGER NOT NULL,
        deleted_ms INTEGER,
        sealed BLOB NOT NULL
    ) STRICT;
    CREATE INDEX nodes_position ON nodes (position, id) WHERE deleted_ms IS NULL;
    CREATE TABLE results (
        id INTEGER PRIMARY KEY,
        node INTEGER NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        value REAL,
        outcome TEXT NOT NULL
    ) STRICT;
    CREATE INDEX results_node ON results (node, kind, at_ms);
    CREATE TABLE values_by_name (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
"];

/// Brings the database to the newest form.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    for (step, migration) in (0..).zip(MIGRATIONS).skip(found as usize) {
        if step > 0 {
            back_up(connection, path, step)?;
        }
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", step + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Copies the database of form `form` beside itself, whole, before it is changed.
fn back_up(connection: &Connection, path: &Path, form: u32) -> Result<(), StoreError> {
    let target = path.with_extension(format!("form-{form}.backup"));
    let mut copy = Connection::open(&target)?;
    Backup::new(connection, &mut copy)?.run_to_completion(1_000, Duration::ZERO, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("culvert.db");
        let mut connection = Connection::open(&path).unwrap();
        migrate(&mut connection, &path).unwrap();
        connection.execute("INSERT INTO values_by_name VALUES ('a', 'b')", []).unwrap();
        back_up(&connection, &path, 1).unwrap();
        let copy = Connection::open(folder.path().join("culvert.form-1.backup")).unwrap();
        let value: String = copy.query_row("SELECT value FROM values_by_name", [], |row| row.get(0)).unwrap();
        assert_eq!(value, "b");
    }

    #[test]
    fn a_newer_form_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("culvert.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", 900).unwrap();
        assert!(matches!(migrate(&mut connection, &path), Err(StoreError::Newer { found: 900, .. })));
    }
}
