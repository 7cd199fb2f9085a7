//! The resolver's file (`/etc/resolv.conf`).
//!
//! A resolver of this machine (systemd-resolved, dnsmasq) is left alone: its own questions go to
//! port 53 and so into the tunnel. Only resolvers elsewhere are replaced, since an IPv6 link-local
//! one names its link and would be asked beside the tunnel.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::super::journal::Change;

/// A larger resolver file is no resolver file.
const LARGEST: u64 = 64 * 1024;

/// The change that names `address` as the only resolver; `None` when none is needed.
pub(super) fn plan(file: &Path, address: IpAddr) -> io::Result<Option<Change>> {
    let text = match fs::metadata(file) {
        Ok(data) if data.len() > LARGEST => {
            return Err(io::Error::other("it is larger than 64 KiB"));
        }
        Ok(_) => fs::read(file)?,
        // A machine without the file asks itself, see resolv.conf(5).
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let lines = String::from_utf8_lossy(&text).into_owned();
    let mut elsewhere = false;
    let mut after = String::from("# Written by Culvert while its tunnel is open.\n");
    for line in lines.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => {
                let server = words.next().unwrap_or_default();
                elsewhere |= server.parse::<IpAddr>().map_or(true, |server| !server.is_loopback());
            }
            Some("search" | "domain" | "options") => {
                after.push_str(line);
                after.push('\n');
            }
            Some(_) | None => {}
        }
    }
    if !elsewhere {
        return Ok(None);
    }
    after.push_str(&format!("nameserver {address}\n"));
    let target = fs::read_link(file).ok();
    Ok(Some(Change::Resolver {
        link: target.is_some(),
        before: target.map_or(text, |target| target.into_os_string().into_vec()),
        after: after.into_bytes(),
    }))
}

/// Makes the change.
pub(super) fn apply(file: &Path, change: &Change) -> io::Result<()> {
    let Change::Resolver { link, after, .. } = change else {
        return Ok(());
    };
    if *link {
        // Someone else writes to where the link points, so the link makes way for a file.
        let beside = beside(file);
        write_new(&beside, after)?;
        fs::rename(&beside, file)
    } else {
        // In place: in containers and namespaces the file is a mount and can't be replaced.
        fs::write(file, after)
    }
}

/// Undoes the change, unless someone else has changed the file since.
pub(super) fn undo(file: &Path, change: &Change) -> io::Result<()> {
    let Change::Resolver { link, before, after } = change else {
        return Ok(());
    };
    // An interrupted apply may have left it; the name is ours.
    match fs::remove_file(beside(file)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let now = match fs::read(file) {
        Ok(now) => now,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let is_link = fs::symlink_metadata(file)?.file_type().is_symlink();
    if is_link {
        return Ok(());
    }
    // Written in place, a kill between truncating and writing leaves a part of ours.
    let ours = now == *after || (!*link && after.starts_with(&now));
    if !ours {
        return Ok(());
    }
    if *link {
        let beside = beside(file);
        std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(before), &beside)?;
        fs::rename(&beside, file)
    } else {
        fs::write(file, before)
    }
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".culvert");
    PathBuf::from(name)
}

fn write_new(file: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(file)?;
    new.set_permissions(fs::Permissions::from_mode(0o644))?;
    new.write_all(bytes)?;
    new.sync_all()
}
