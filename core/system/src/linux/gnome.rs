//! GNOME's proxy setting, through `gsettings`.
//!
//! Without a session bus, or with another settings backend in the environment, `gsettings` warns, exits 0 and keeps
//! nothing: every change is read back by a new process. `dconf`, where it is there, tells "never set" from "set to
//! the default", so that a default of the distribution isn't pinned by us.

use std::net::SocketAddr;
use std::process::Command;

use crate::system_proxy::{Backend, BackendError, Change, ProxyTarget, Role, Values, Wanted, bypass, check_kept};
use crate::tool;

pub(crate) const NAME: &str = "gnome";

const SCHEMA: &str = "org.gnome.system.proxy";
const MODE: &str = "org.gnome.system.proxy mode";
const IGNORE: &str = "org.gnome.system.proxy ignore-hosts";
/// Kinds of proxy that our one port serves.
const KINDS: [&str; 3] = ["http", "https", "socks"];

#[derive(Debug)]
pub(crate) struct Gnome;

/// Whether the program and its schema are here.
pub(crate) fn is_installed() -> bool {
    tool::run("gsettings", command("gsettings").args(["get", SCHEMA, "mode"])).is_ok()
}

impl Backend for Gnome {
    fn name(&self) -> &'static str {
        NAME
    }

    fn read(&self) -> Result<Values, BackendError> {
        let all = tool::run("gsettings", command("gsettings").args(["list-recursively", SCHEMA]))?;
        let mut values = parse_list(&all);
        if std::env::var_os("GSETTINGS_BACKEND").is_none_or(|backend| backend == "dconf") {
            // No dconf program: then all that is known is the value that counts, which is put back as such.
            if let Ok(set) = tool::run("dconf", command("dconf").args(["dump", "/system/proxy/"])) {
                let set = parse_dump(&set);
                values.retain(|key, _| set.contains(key));
            }
        }
        Ok(values)
    }

    fn wanted(&self, target: &ProxyTarget, _present: &Values) -> Vec<Wanted> {
        let one = |role, key: String, value: String| Wanted {
            scope: NAME.into(),
            role,
            change: Change { key, value: Some(value) },
        };
        let mut wanted = Vec::new();
        for kind in KINDS {
            wanted.push(one(Role::Endpoint, format!("{SCHEMA}.{kind} host"), quoted(&target.host.to_string())));
            wanted.push(one(Role::Endpoint, format!("{SCHEMA}.{kind} port"), target.port.to_string()));
        }
        wanted.push(one(Role::Detail, format!("{SCHEMA}.http use-authentication"), "false".into()));
        wanted.push(one(Role::Detail, IGNORE.into(), list(bypass::valid(&target.bypass))));
        wanted.push(one(Role::Switch, MODE.into(), quoted("manual")));
        wanted
    }

    fn off(&self, _present: &Values) -> Vec<Change> {
        vec![Change { key: MODE.into(), value: Some(quoted("none")) }]
    }

    fn endpoint(&self, present: &Values) -> Option<SocketAddr> {
        if present.get(MODE)? != &quoted("manual") {
            return None;
        }
        let host = present.get(&format!("{SCHEMA}.http host"))?.trim_matches('\'').parse().ok()?;
        let port = present.get(&format!("{SCHEMA}.http port"))?.parse().ok()?;
        Some(SocketAddr::new(host, port))
    }

    fn write(&self, changes: &[Change]) -> Result<(), BackendError> {
        for change in changes {
            let Some((schema, key)) = change.key.split_once(' ') else {
                return Err(BackendError::Failed {
                    what: "gsettings",
                    why: format!("{} is not a key of it", change.key),
                });
            };
            let mut command = command("gsettings");
            match &change.value {
                Some(value) => command.args(["set", schema, key, value]),
                None => command.args(["reset", schema, key]),
            };
            tool::run("gsettings", &mut command)?;
        }
        check_kept(NAME, changes, &self.read()?)
    }
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    // The printed form of a value depends on the language; names beyond ASCII must come through.
    command.env("LC_ALL", "C.UTF-8").env_remove("LANGUAGE");
    command
}

/// `SCHEMA KEY VALUE` a line.
fn parse_list(text: &str) -> Values {
    text.lines()
        .filter_map(|line| {
            let (schema, rest) = line.split_once(' ')?;
            let (key, value) = rest.split_once(' ')?;
            schema.starts_with(SCHEMA).then(|| (format!("{schema} {key}"), value.to_owned()))
        })
        .collect()
}

/// `[/]` or `[http]`, then `key=value` lines; the keys that are set.
fn parse_dump(text: &str) -> std::collections::BTreeSet<String> {
    let mut schema = String::from(SCHEMA);
    let mut keys = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(folder) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            schema = if folder == "/" { SCHEMA.into() } else { format!("{SCHEMA}.{}", folder.replace('/', ".")) };
        } else if let Some((key, _)) = line.split_once('=') {
            keys.insert(format!("{schema} {key}"));
        }
    }
    keys
}

/// As GVariant prints a text without quotes or backslashes in it.
fn quoted(text: &str) -> String {
    format!("'{text}'")
}

fn list<'a>(entries: impl Iterator<Item = &'a str>) -> String {
    let entries: Vec<String> = entries.map(quoted).collect();
    if entries.is_empty() { "@as []".into() } else { format!("[{}]", entries.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_outputs_are_understood() {
        let values = parse_list(
            "org.gnome.system.proxy ignore-hosts ['localhost', '::1']\norg.gnome.system.proxy.http host ''\nnoise\n",
        );
        assert_eq!(values.get(IGNORE).map(String::as_str), Some("['localhost', '::1']"));
        assert_eq!(values.get("org.gnome.system.proxy.http host").map(String::as_str), Some("''"));
        let set = parse_dump("[/]\nmode='manual'\n\n[http]\nhost='a=b'\nport=1\n");
        assert_eq!(
            set.into_iter().collect::<Vec<_>>(),
            ["org.gnome.system.proxy mode", "org.gnome.system.proxy.http host", "org.gnome.system.proxy.http port"]
        );
    }

    #[test]
    fn switched_on_last() {
        let wanted = Gnome.wanted(&ProxyTarget::new([127, 0, 0, 1].into(), 2080), &Values::new());
        assert_eq!(wanted.last().map(|wanted| wanted.change.key.as_str()), Some(MODE));
        let values: Values =
            wanted.into_iter().filter_map(|wanted| Some((wanted.change.key, wanted.change.value?))).collect();
        assert_eq!(Gnome.endpoint(&values), Some("127.0.0.1:2080".parse().unwrap()));
    }
}
