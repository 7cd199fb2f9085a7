//! KDE's proxy setting: the file `kioslaverc` and a signal to the running programs.
//!
//! The file is edited line by line and keeps everything that isn't ours, byte for byte, including flags such as
//! `[$e]` behind a key; KDE's own programs write it the same way (lock file beside it, new file renamed over it).

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::system_proxy::{Backend, BackendError, Change, ProxyTarget, Role, Values, Wanted, bypass, check_kept};

pub(crate) const NAME: &str = "kde";

const GROUP: &str = "[Proxy Settings]";
const TYPE: &str = "ProxyType";
const MANUAL: &str = "1";
/// A settings file of KDE is some kilobytes.
const LIMIT_BYTES: u64 = 1 << 20;
const LOCK_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Kde {
    file: PathBuf,
}

/// Whether this is a session of KDE.
pub(crate) fn is_session() -> bool {
    std::env::var_os("KDE_FULL_SESSION").is_some()
        || std::env::var("XDG_CURRENT_DESKTOP")
            .is_ok_and(|desktops| desktops.split(':').any(|desktop| desktop.eq_ignore_ascii_case("kde")))
}

impl Kde {
    /// The setting of this user; none without a home folder.
    pub(crate) fn of_user() -> Option<Self> {
        let config = std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".config")))?;
        Some(Self { file: config.join("kioslaverc") })
    }

    fn text(&self) -> Result<String, BackendError> {
        match fs::metadata(&self.file) {
            Ok(metadata) if metadata.len() > LIMIT_BYTES => {
                return Err(failed(format!("{} is larger than such a file can be", self.file.display())));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(failed(error.to_string())),
        }
        // Bytes that aren't UTF-8 would not survive our edit, so such a file is refused.
        fs::read_to_string(&self.file).map_err(|error| failed(format!("{}: {error}", self.file.display())))
    }

    fn replace(&self, text: &str) -> std::io::Result<()> {
        // A link (dotfiles kept elsewhere) stays a link: what it leads to is replaced.
        let file = fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let partial = file.with_extension(format!("culvert-{}", std::process::id()));
        let mut out = crate::directories::create_private(&partial)?;
        out.write_all(text.as_bytes())?;
        if let Ok(metadata) = fs::metadata(&file) {
            fs::set_permissions(&partial, metadata.permissions())?;
        }
        out.sync_all()?;
        fs::rename(&partial, &file)
    }
}

impl Backend for Kde {
    fn name(&self) -> &'static str {
        NAME
    }

    fn read(&self) -> Result<Values, BackendError> {
        Ok(parse(&self.text()?))
    }

    fn wanted(&self, target: &ProxyTarget, _present: &Values) -> Vec<Wanted> {
        let one = |role, key: &str, value: String| Wanted {
            scope: NAME.into(),
            role,
            change: Change { key: key.into(), value: Some(value) },
        };
        let host = match target.host {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(address) => format!("[{address}]"),
        };
        vec![
            one(Role::Endpoint, "httpProxy", format!("http://{host} {}", target.port)),
            one(Role::Endpoint, "httpsProxy", format!("http://{host} {}", target.port)),
            one(Role::Endpoint, "socksProxy", format!("socks://{host} {}", target.port)),
            one(Role::Detail, "NoProxyFor", bypass::with_dot_suffixes(&target.bypass).join(",")),
            one(Role::Detail, "ReversedException", "false".into()),
            one(Role::Switch, TYPE, MANUAL.into()),
        ]
    }

    fn off(&self, _present: &Values) -> Vec<Change> {
        vec![Change { key: TYPE.into(), value: Some("0".into()) }]
    }

    fn endpoint(&self, present: &Values) -> Option<SocketAddr> {
        if present.get(TYPE)? != MANUAL {
            return None;
        }
        let text = present.get("httpProxy")?.strip_prefix("http://")?;
        // Both "HOST PORT" and "HOST:PORT" are in use.
        text.replace(' ', ":").trim_end_matches('/').parse().ok()
    }

    fn write(&self, changes: &[Change]) -> Result<(), BackendError> {
        {
            let _lock = FileLock::take(&self.file);
            let text = edit(&self.text()?, changes);
            self.replace(&text).map_err(|error| failed(format!("{}: {error}", self.file.display())))?;
        }
        if let Err(error) = tell_running_programs() {
            // Programs started from now on see the change all the same.
            tracing::warn!(%error, "KDE's running programs could not be told of the change of the proxy");
        }
        check_kept(NAME, changes, &self.read()?)
    }
}

fn failed(why: String) -> BackendError {
    BackendError::Failed { what: "kioslaverc", why }
}

/// The values of the group; a flag behind the key stands before the value, behind a zero byte, so that it is put
/// back with it.
fn parse(text: &str) -> Values {
    let mut values = Values::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line.trim_end() == GROUP;
        } else if inside && let Some((key, flags, value)) = split(line) {
            let value = if flags.is_empty() { value.to_owned() } else { format!("{flags}\0{value}") };
            values.insert(key.to_owned(), value);
        }
    }
    values
}

/// `key[$flags]=value`.
fn split(line: &str) -> Option<(&str, &str, &str)> {
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let (key, flags) = name.find('[').map_or((name, ""), |at| name.split_at(at));
    (!key.is_empty()).then_some((key, flags, value.trim_start()))
}

fn print(key: &str, value: &str) -> String {
    match value.split_once('\0') {
        Some((flags, value)) => format!("{key}{flags}={value}"),
        None => format!("{key}={value}"),
    }
}

/// The text with the changes made in it and all else as it was.
fn edit(text: &str, changes: &[Change]) -> String {
    let mut pending: Vec<&Change> = changes.iter().filter(|change| change.value.is_some()).collect();
    let mut lines: Vec<String> = Vec::new();
    let mut inside = false;
    // Where new keys of the group go: behind the last line of it that isn't empty.
    let mut end_of_group = None;
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line.trim_end() == GROUP;
        }
        let change = inside
            .then(|| split(line))
            .flatten()
            .and_then(|(key, _, _)| changes.iter().find(|change| change.key == key));
        match change {
            None => lines.push(line.to_owned()),
            Some(change) => {
                // A key that is there twice is left once; without a value it goes.
                if let (Some(value), true) = (&change.value, pending.iter().any(|waiting| waiting.key == change.key)) {
                    lines.push(print(&change.key, value));
                    pending.retain(|waiting| waiting.key != change.key);
                }
            }
        }
        if inside && lines.last().is_some_and(|line| !line.trim().is_empty()) {
            end_of_group = Some(lines.len());
        }
    }
    if !pending.is_empty() {
        let at = end_of_group.unwrap_or_else(|| {
            if lines.last().is_some_and(|line| !line.trim().is_empty()) {
                lines.push(String::new());
            }
            lines.push(GROUP.into());
            lines.len()
        });
        let new: Vec<String> =
            pending.iter().filter_map(|change| change.value.as_ref().map(|value| print(&change.key, value))).collect();
        lines.splice(at..at, new);
    }
    let mut out = lines.join("\n");
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// KDE's lock beside a settings file: whoever makes it has it, and it names its holder so that a dead one's can be
/// taken away.
struct FileLock {
    path: Option<PathBuf>,
}

impl FileLock {
    /// Takes the lock; when its holder doesn't let go for a second, goes on without: the file is replaced as a whole
    /// anyway.
    fn take(file: &Path) -> Self {
        let mut name = file.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let end = Instant::now() + LOCK_WAIT;
        loop {
            match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut lock) => {
                    // Form of Qt's lock files: process, program, host.
                    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                    let _ = write!(lock, "{}\nculvert-core\n{}\n", std::process::id(), host.trim());
                    return Self { path: Some(path) };
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(_) => return Self { path: None },
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn tell_running_programs() -> Result<(), zbus::Error> {
    let bus = zbus::blocking::Connection::session()?;
    bus.emit_signal(None::<&str>, "/KIO/Scheduler", "org.kde.KIO.Scheduler", "reparseSlaveConfiguration", &"")?;
    // The signal has left us only once the bus has answered something sent behind it.
    bus.call_method(Some("org.freedesktop.DBus"), "/", Some("org.freedesktop.DBus.Peer"), "Ping", &())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: Option<&str>) -> Change {
        Change { key: key.into(), value: value.map(String::from) }
    }

    const TEXT: &str = "[$Version]\nupdate_info=x\n\n[Proxy Settings]\nProxyType=2\nhttpProxy[$e]=$HTTP_PROXY\n# said\nProxy Config Script=http://corp/pac\n\n[Other]\nProxyType=9\n";

    #[test]
    fn values_and_flags_are_read() {
        let values = parse(TEXT);
        assert_eq!(values.get("ProxyType").map(String::as_str), Some("2"));
        assert_eq!(values.get("httpProxy").map(String::as_str), Some("[$e]\0$HTTP_PROXY"));
        assert_eq!(values.get("Proxy Config Script").map(String::as_str), Some("http://corp/pac"));
        assert_eq!(values.len(), 3);
    }

    #[test]
    fn an_edit_and_its_undoing_leave_the_text_as_it_was() {
        let kde = Kde { file: PathBuf::new() };
        let wanted: Vec<Change> = kde
            .wanted(&ProxyTarget::new([127, 0, 0, 1].into(), 2080), &Values::new())
            .into_iter()
            .map(|wanted| wanted.change)
            .collect();
        for text in [TEXT, "", "[Other]\na=b\n", "[Proxy Settings]\n", "[Proxy Settings]\nProxyType=0\n[Other]\na=b\n"]
        {
            let before = parse(text);
            let edited = edit(text, &wanted);
            let now = parse(&edited);
            check_kept(NAME, &wanted, &now).unwrap();
            assert_eq!(kde.endpoint(&now), Some("127.0.0.1:2080".parse().unwrap()));
            let back: Vec<Change> = wanted
                .iter()
                .map(|change| Change { key: change.key.clone(), value: before.get(&change.key).cloned() })
                .collect();
            let restored = edit(&edited, &back);
            assert_eq!(parse(&restored), before);
            if text.contains(GROUP) {
                assert_eq!(restored, text);
            }
        }
    }

    #[test]
    fn other_groups_are_left_alone_and_doubles_go() {
        let text = "[Proxy Settings]\nProxyType=1\nProxyType=3\n[Proxy Settings][Sub]\nProxyType=7\n";
        assert_eq!(
            edit(text, &[set("ProxyType", Some("0"))]),
            "[Proxy Settings]\nProxyType=0\n[Proxy Settings][Sub]\nProxyType=7\n"
        );
        assert_eq!(edit(text, &[set("ProxyType", None)]), "[Proxy Settings]\n[Proxy Settings][Sub]\nProxyType=7\n");
    }
}
