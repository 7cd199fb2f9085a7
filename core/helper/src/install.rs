//! Installing the helper as a systemd service, and the commands of an administrator.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use culvert_helper_protocol::{DEVICE, SOCKET};
use culvert_system_privileged::linux::channel::Channel;
use culvert_system_privileged::linux::firewall::KillSwitch;
use culvert_system_privileged::linux::tunnel::{self, Places, TunnelError};

use crate::service::{self, ServiceError, Settings};

const FOLDER: &str = "/usr/local/lib/culvert";
const BINARY: &str = "/usr/local/lib/culvert/culvert-helper";
const UNIT: &str = "culvert-helper.service";
const UNIT_FILE: &str = "/etc/systemd/system/culvert-helper.service";
const SETTINGS: &str = "/etc/culvert";
const USERS: &str = "/etc/culvert/helper-users";
const JOURNAL: &str = "/var/lib/culvert";
/// More users than this are refused.
const MAX_USERS: usize = 64;

/// The kernel's part and no more: the helper needs no other capability, no home and no network
/// families beside those that it speaks to the kernel by.
const UNIT_TEXT: &str = "\
[Unit]
Description=Culvert's privileged helper (TUN device, routes, kill switch)
After=local-fs.target

[Service]
ExecStart=/usr/local/lib/culvert/culvert-helper serve
ExecStopPost=/usr/local/lib/culvert/culvert-helper repair
Restart=always
RestartSec=200ms
CapabilityBoundingSet=CAP_NET_ADMIN CAP_CHOWN CAP_DAC_OVERRIDE
NoNewPrivileges=yes
ProtectHome=yes
PrivateTmp=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6
RestrictNamespaces=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
LimitNOFILE=1024
TasksMax=32
MemoryMax=64M

[Install]
WantedBy=multi-user.target
";

/// Why a command fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// No user is named.
    #[error("for which user? Name a user id: culvert-helper install UID")]
    User,
    /// A file can't be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// systemd refuses.
    #[error("systemctl {0} failed; this command needs root and a running systemd")]
    Systemd(&'static str),
    /// The firewall refuses.
    #[error("the kill switch can't be taken away: {0}")]
    Firewall(io::Error),
    /// Nobody may speak to the helper.
    #[error("no user is named in {USERS}; run `culvert-helper install UID`")]
    NoUsers,
    /// It is not as it should be.
    #[error("{0}")]
    Unwell(String),
    /// The service ends.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A repair fails.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
}

type Outcome = Result<String, CommandError>;

fn at<T>(path: &str, result: io::Result<T>) -> Result<T, CommandError> {
    result.map_err(|source| CommandError::File { path: PathBuf::from(path), source })
}

/// The user who called through sudo or pkexec.
pub(crate) fn caller() -> Result<u32, CommandError> {
    ["PKEXEC_UID", "SUDO_UID"].iter().find_map(|name| std::env::var(name).ok()?.parse().ok()).ok_or(CommandError::User)
}

/// A user id.
pub(crate) fn user(text: &str) -> Result<u32, CommandError> {
    text.parse().map_err(|_| CommandError::User)
}

/// Installs, or brings an installation up to date; a further user is added.
pub(crate) fn install(user: u32) -> Outcome {
    for (folder, mode) in [(FOLDER, 0o755), (SETTINGS, 0o755), (JOURNAL, 0o700)] {
        let mut builder = fs::DirBuilder::new();
        at(folder, builder.recursive(true).mode(mode).create(folder))?;
    }
    let own = at("/proc/self/exe", fs::read("/proc/self/exe"))?;
    replace(BINARY, &own, 0o755)?;
    let mut users = match users() {
        Err(CommandError::NoUsers) => Vec::new(),
        other => other?,
    };
    if !users.contains(&user) {
        users.push(user);
    }
    let lines: String = users.iter().map(|user| format!("{user}\n")).collect();
    replace(USERS, lines.as_bytes(), 0o644)?;
    replace(UNIT_FILE, UNIT_TEXT.as_bytes(), 0o644)?;
    systemctl("daemon-reload", &["daemon-reload"])?;
    systemctl("enable", &["enable", "--quiet", UNIT])?;
    systemctl("restart", &["restart", UNIT])?;
    Ok(format!("installed for user {user}"))
}

/// Whether it is installed and answers.
pub(crate) fn status() -> Outcome {
    let users = users()?;
    if !Path::new(BINARY).exists() || !Path::new(UNIT_FILE).exists() {
        return Err(CommandError::Unwell("it is not installed; run `culvert-helper install`".to_owned()));
    }
    match Channel::connect(Path::new(SOCKET)) {
        Ok(_) => {}
        // The socket is there, and another user's.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        Err(error) => {
            return Err(CommandError::Unwell(format!(
                "it is installed for {users:?} but does not answer at {SOCKET}: {error}"
            )));
        }
    }
    Ok(format!("installed for users {users:?}, running"))
}

/// Undoes what a tunnel left. While the service has one open, it is left alone.
pub(crate) fn repair() -> Outcome {
    tunnel::repair(&places())?;
    Ok("nothing of a tunnel is left".to_owned())
}

/// Takes the kill switch away.
pub(crate) fn release() -> Outcome {
    KillSwitch::release().map_err(CommandError::Firewall)?;
    Ok("the kill switch is off".to_owned())
}

/// Takes the service away, its tunnel and its kill switch too.
pub(crate) fn uninstall() -> Outcome {
    if Path::new(UNIT_FILE).exists() {
        systemctl("disable", &["disable", "--quiet", "--now", UNIT])?;
    }
    repair()?;
    release()?;
    for file in [UNIT_FILE, BINARY, USERS] {
        match fs::remove_file(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => at(file, other)?,
        }
    }
    for folder in [FOLDER, SETTINGS] {
        // Whatever else is in them is not ours.
        let _ = fs::remove_dir(folder);
    }
    systemctl("daemon-reload", &["daemon-reload"])?;
    Ok("uninstalled".to_owned())
}

/// The service.
pub(crate) fn serve() -> Outcome {
    service::serve(Settings {
        socket: PathBuf::from(SOCKET),
        places: places(),
        users: users()?,
        device: DEVICE.to_owned(),
    })?;
    Ok(String::new())
}

fn places() -> Places {
    Places::with_journal(Path::new(JOURNAL))
}

fn users() -> Result<Vec<u32>, CommandError> {
    let text = match fs::read_to_string(USERS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(CommandError::NoUsers),
        other => at(USERS, other)?,
    };
    let users: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).take(MAX_USERS).collect();
    if users.is_empty() {
        return Err(CommandError::NoUsers);
    }
    Ok(users)
}

/// Puts a file in the place of another in one step.
fn replace(path: &str, bytes: &[u8], mode: u32) -> Result<(), CommandError> {
    let beside = format!("{path}.new");
    let write = || {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        io::Write::write_all(&mut file, bytes)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    at(path, write())
}

fn systemctl(step: &'static str, words: &[&str]) -> Result<(), CommandError> {
    let ran = Command::new("/usr/bin/systemctl").args(words).stdin(Stdio::null()).stdout(Stdio::null()).status();
    match ran {
        Ok(status) if status.success() => Ok(()),
        Ok(_) | Err(_) => Err(CommandError::Systemd(step)),
    }
}
