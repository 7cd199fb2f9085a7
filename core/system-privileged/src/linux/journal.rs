//! The journal: each change is written down before it is made, so that whoever comes next can
//! undo it, also after a kill or a power cut.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::routing::{from_hex, hex};

const NAME: &str = "tunnel.journal";
/// More than any tunnel of ours writes; a larger file is not ours.
const LARGEST: u64 = 4 * 1024 * 1024;

/// One change, with what undoing it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A device of this name was made. Its index comes with `DeviceIndex`.
    Device(String),
    /// A policy rule, in the kernel's form.
    Rule(Vec<u8>),
    /// A number below /proc/sys.
    Setting { path: String, before: String, after: String },
    /// The resolver's file: what it held (or where it pointed) and what it holds now.
    Resolver { link: bool, before: Vec<u8>, after: Vec<u8> },
    /// A table of the firewall.
    Firewall(String),
}

impl Change {
    fn encode(&self) -> String {
        match self {
            Self::Device(name) => format!("device {}", hex(name.as_bytes())),
            Self::Rule(bytes) => format!("rule {}", hex(bytes)),
            Self::Setting { path, before, after } => {
                format!("setting {} {} {}", hex(path.as_bytes()), hex(before.as_bytes()), hex(after.as_bytes()))
            }
            Self::Resolver { link, before, after } => {
                let kind = if *link { "link" } else { "file" };
                format!("resolver {kind} _{} _{}", hex(before), hex(after))
            }
            Self::Firewall(table) => format!("firewall {}", hex(table.as_bytes())),
        }
    }

    fn decode(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(' ').collect();
        let text = |field: &str| String::from_utf8(from_hex(field)?).ok();
        match fields.as_slice() {
            ["device", name] => Some(Self::Device(text(name)?)),
            ["rule", bytes] => Some(Self::Rule(from_hex(bytes)?)),
            ["setting", path, before, after] => {
                Some(Self::Setting { path: text(path)?, before: text(before)?, after: text(after)? })
            }
            ["resolver", kind, before, after] => Some(Self::Resolver {
                link: *kind == "link",
                before: from_hex(before.strip_prefix('_')?)?,
                after: from_hex(after.strip_prefix('_')?)?,
            }),
            ["firewall", table] => Some(Self::Firewall(text(table)?)),
            _ => None,
        }
    }

    /// Whether the change outlives a restart of the machine.
    pub(super) fn lasts(&self) -> bool {
        match self {
            Self::Resolver { .. } => true,
            Self::Device(_) | Self::Rule(_) | Self::Setting { .. } | Self::Firewall(_) => false,
        }
    }
}

/// An open, locked journal. Only one tunnel can hold a folder's journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    place: PathBuf,
}

impl Journal {
    /// Opens the journal of a folder (made with mode 0700 if it is absent) and locks it.
    ///
    /// # Errors
    /// `WouldBlock` when another process holds it; any error of the file.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let place = folder.join(NAME);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&place)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { file, place })
    }

    /// What is written in it, oldest first, and whether that was before this start of the machine.
    /// A line torn by a power cut was not followed by its change and is left out.
    pub(super) fn read(&mut self) -> io::Result<(Vec<Change>, bool)> {
        self.file.rewind()?;
        let mut text = String::new();
        Read::by_ref(&mut self.file).take(LARGEST).read_to_string(&mut text)?;
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let start = lines.next().unwrap_or_default();
        let changes = lines.filter_map(Change::decode).collect();
        Ok((changes, start != start_of_machine()?))
    }

    /// Writes a change down, before it is made.
    pub(super) fn write(&mut self, change: &Change) -> io::Result<()> {
        let mut text = String::new();
        if self.file.metadata()?.len() == 0 {
            text = start_of_machine()? + "\n";
        }
        text.push_str(&change.encode());
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }

    /// Forgets everything: all is undone.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.sync_data()
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }
}

fn start_of_machine() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_survive_writing_and_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let changes = vec![
            Change::Device("cv0".into()),
            Change::Rule(vec![1, 2, 255]),
            Change::Setting { path: "/proc/sys/x".into(), before: "1".into(), after: "2".into() },
            Change::Resolver { link: false, before: Vec::new(), after: b"nameserver ::1\n".to_vec() },
            Change::Firewall("culvert".into()),
        ];
        let mut journal = Journal::open(folder.path()).unwrap();
        for change in &changes {
            journal.write(change).unwrap();
        }
        journal.file.write_all(b"rule 01").unwrap();
        assert_eq!(journal.read().unwrap(), (changes, false));
        assert!(Journal::open(folder.path()).is_err(), "it is locked");
        journal.clear().unwrap();
        assert!(journal.read().unwrap().0.is_empty());
    }
}
