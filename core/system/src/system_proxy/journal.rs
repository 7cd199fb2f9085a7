//! The journal: what was there before us, on the disk before anything is changed.
//!
//! One small file, replaced as a whole (written beside, synced, renamed, folder synced), so that it is there
//! completely or not at all. It exists exactly while a change of ours may stand. The *generation* counts the cores
//! that have owned it; `owner` names the one that does, and its guard acts only for that owner.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Entry;

const FILE: &str = "system-proxy.journal";
const PARTIAL: &str = "system-proxy.journal.partial";
const DAMAGED: &str = "system-proxy.journal.damaged";
/// Version of the format; a newer one is left alone rather than misread.
const FORMAT: u32 = 1;
/// No journal of ours comes near this size.
const LIMIT_BYTES: u64 = 4 << 20;

/// The journal's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Version of the format.
    pub format: u32,
    /// Counts the cores that have owned this journal, one after the other.
    pub generation: u64,
    /// The core that made the change: its process id and moment of start.
    pub owner: String,
    /// Process id of the owner, to name it to the person.
    pub owner_pid: u32,
    /// What was changed.
    pub entries: Vec<Entry>,
}

/// What is on the disk.
#[derive(Debug)]
pub enum Stored {
    /// No change of ours stands.
    Nothing,
    /// A change of ours may stand.
    Journal(Journal),
    /// There is a file, and it can't be understood.
    Damaged(String),
}

impl Journal {
    /// A journal of the present format.
    #[must_use]
    pub fn new(generation: u64, owner: String, entries: Vec<Entry>) -> Self {
        Self { format: FORMAT, generation, owner, owner_pid: std::process::id(), entries }
    }

    /// Puts the journal on the disk; when this returns, a power cut can't take it away.
    ///
    /// # Errors
    /// Any failure to write or sync; then the former journal, if there was one, still stands.
    pub fn store(&self, directory: &Path) -> std::io::Result<()> {
        let partial = directory.join(PARTIAL);
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let mut file = crate::directories::create_private(&partial)?;
        file.write_all(&text)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&partial, directory.join(FILE))?;
        sync_directory(directory)
    }

    /// Reads what is on the disk.
    ///
    /// # Errors
    /// When the file is there and can't be read at all.
    pub fn load(directory: &Path) -> std::io::Result<Stored> {
        let file = match File::open(directory.join(FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Stored::Nothing),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(LIMIT_BYTES).read_to_end(&mut text)?;
        Ok(match serde_json::from_slice::<Self>(&text) {
            Ok(journal) if journal.format == FORMAT => Stored::Journal(journal),
            Ok(journal) => Stored::Damaged(format!("it has format {}, this version knows {FORMAT}", journal.format)),
            Err(error) => Stored::Damaged(error.to_string()),
        })
    }

    /// Takes the journal away, once nothing of ours stands any more.
    ///
    /// # Errors
    /// Any failure to remove it, but for its absence.
    pub fn remove(directory: &Path) -> std::io::Result<()> {
        match fs::remove_file(directory.join(FILE)) {
            Ok(()) => sync_directory(directory),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts a file that can't be understood aside, for a look at it.
    ///
    /// # Errors
    /// Any failure to rename it.
    pub fn put_aside(directory: &Path) -> std::io::Result<PathBuf> {
        let aside = directory.join(DAMAGED);
        fs::rename(directory.join(FILE), &aside)?;
        sync_directory(directory)?;
        Ok(aside)
    }
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_directory: &Path) -> std::io::Result<()> {
    // NTFS journals names itself, and Windows has no way to sync a folder.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_completely_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Journal::load(folder.path()).unwrap(), Stored::Nothing));
        let journal = Journal::new(3, "1-2".into(), Vec::new());
        journal.store(folder.path()).unwrap();
        assert!(matches!(Journal::load(folder.path()).unwrap(), Stored::Journal(found) if found == journal));
        // A core that died while writing leaves a part beside the file, which nobody reads.
        fs::write(folder.path().join(PARTIAL), "{\"format\": 1, \"gener").unwrap();
        assert!(matches!(Journal::load(folder.path()).unwrap(), Stored::Journal(found) if found == journal));
        journal.store(folder.path()).unwrap();
        Journal::remove(folder.path()).unwrap();
        Journal::remove(folder.path()).unwrap();
        assert!(matches!(Journal::load(folder.path()).unwrap(), Stored::Nothing));
    }

    #[test]
    fn a_cut_or_newer_file_is_not_taken_for_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(3, "1-2".into(), Vec::new());
        journal.store(folder.path()).unwrap();
        let whole = fs::read(folder.path().join(FILE)).unwrap();
        for length in 0..whole.len() - 2 {
            fs::write(folder.path().join(FILE), &whole[..length]).unwrap();
            assert!(matches!(Journal::load(folder.path()).unwrap(), Stored::Damaged(_)), "cut at {length}");
        }
        let newer = Journal { format: FORMAT + 1, ..journal };
        newer.store(folder.path()).unwrap();
        assert!(matches!(Journal::load(folder.path()).unwrap(), Stored::Damaged(_)));
        assert!(Journal::put_aside(folder.path()).unwrap().exists());
        assert!(matches!(Journal::load(folder.path()).unwrap(), Stored::Nothing));
    }
}
