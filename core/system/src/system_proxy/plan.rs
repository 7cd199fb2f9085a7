//! What to write down before a change, and what to put back after it: decisions only, no side effects.

use serde::{Deserialize, Serialize};

use super::{Change, Role, Values, Wanted};

/// One setting we changed, or are about to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the backend.
    pub backend: String,
    /// Settings that belong together.
    pub scope: String,
    /// What the setting does.
    pub role: Role,
    /// The backend's key.
    pub key: String,
    /// What was there before us; `None` when nothing was set.
    pub previous: Option<String>,
    /// What we write. More than one while a change from one of our ports to another is under way.
    pub ours: Vec<Option<String>>,
}

impl Entry {
    fn is_ours(&self, present: &Values) -> bool {
        let value = present.get(&self.key).cloned();
        self.ours.contains(&value)
    }

    fn is_previous(&self, present: &Values) -> bool {
        present.get(&self.key) == self.previous.as_ref()
    }
}

/// The journal's entries for pointing a backend at something.
///
/// `old` holds the entries of a change of ours that still stands (another port, or a core that died): where the
/// present value is ours, what was there before *that* change stays the value to be put back.
#[must_use]
pub fn entries(backend: &str, wanted: Vec<Wanted>, present: &Values, old: &[Entry]) -> Vec<Entry> {
    let mut out: Vec<Entry> = wanted
        .into_iter()
        .map(|Wanted { scope, role, change: Change { key, value } }| {
            let standing =
                old.iter().find(|entry| entry.backend == backend && entry.key == key && entry.is_ours(present));
            let (previous, mut ours) = match standing {
                Some(entry) => (entry.previous.clone(), entry.ours.clone()),
                None => (present.get(&key).cloned(), Vec::new()),
            };
            ours.retain(|known| *known != value);
            ours.push(value);
            Entry { backend: backend.to_owned(), scope, role, key, previous, ours }
        })
        .collect();
    // A network service that has gone may come back with our values in it.
    let gone: Vec<Entry> = old
        .iter()
        .filter(|entry| entry.backend == backend && !out.iter().any(|new| new.key == entry.key))
        .cloned()
        .collect();
    out.extend(gone);
    out
}

/// What putting back comes down to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restoration {
    /// The values to write, in order: whatever turns proxying off comes first.
    pub changes: Vec<Change>,
    /// Keys that someone else has changed meanwhile; they stay as they are.
    pub foreign: Vec<String>,
}

/// Decides what to put back, given what is there now.
///
/// Only a value that still equals ours is put back. A switch stays when someone else has put another proxy beside
/// it: turning that proxy off would undo their choice.
#[must_use]
pub fn restoration<'a>(
    entries: &(impl DoubleEndedIterator<Item = &'a Entry> + Clone),
    present: &Values,
) -> Restoration {
    let taken_over = |scope: &str| {
        entries.clone().any(|entry| {
            entry.role == Role::Endpoint
                && entry.scope == scope
                && !entry.is_ours(present)
                && !entry.is_previous(present)
        })
    };
    let mut out = Restoration::default();
    for entry in entries.clone().rev() {
        if entry.is_previous(present) {
            continue;
        }
        if !entry.is_ours(present) || (entry.role == Role::Switch && taken_over(&entry.scope)) {
            out.foreign.push(entry.key.clone());
            continue;
        }
        out.changes.push(Change { key: entry.key.clone(), value: entry.previous.clone() });
    }
    out
}

#[cfg(test)]
mod tests;
