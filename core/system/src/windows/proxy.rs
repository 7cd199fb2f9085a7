//! Windows' proxy settings: the local network's and those of every dial-up and VPN connection, which have their own.
//!
//! Keys are `CONNECTION|SETTING`, with an empty name for the local network.

use std::net::SocketAddr;

use super::proxy_values::{DIRECT, flags_on, http_server};
use super::wininet::{self, Settings};
use crate::system_proxy::{Backend, BackendError, Change, ProxyTarget, Role, Values, Wanted, bypass, check_kept};

pub(crate) const NAME: &str = "windows";
const FLAGS: &str = "flags";
const SERVER: &str = "server";
const BYPASS: &str = "bypass";
const SCRIPT: &str = "script";

#[derive(Debug)]
pub(crate) struct WinInet;

impl Backend for WinInet {
    fn name(&self) -> &'static str {
        NAME
    }

    fn read(&self) -> Result<Values, BackendError> {
        let mut values = Values::new();
        for connection in connections() {
            let settings = wininet::read(name_of(&connection)).map_err(failed)?;
            values.insert(key(&connection, FLAGS), settings.flags.to_string());
            for (setting, text) in [(SERVER, settings.server), (BYPASS, settings.bypass), (SCRIPT, settings.script)] {
                // Windows doesn't tell "empty" from "not set".
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    values.insert(key(&connection, setting), text);
                }
            }
        }
        Ok(values)
    }

    fn wanted(&self, target: &ProxyTarget, present: &Values) -> Vec<Wanted> {
        let server = SocketAddr::new(target.host, target.port).to_string();
        let bypass = bypass::as_windows_patterns(&target.bypass).join(";");
        connections_of(present)
            .flat_map(|connection| {
                [
                    (Role::Endpoint, SERVER, server.clone()),
                    (Role::Detail, BYPASS, bypass.clone()),
                    (Role::Switch, FLAGS, flags_on().to_string()),
                ]
                .map(|(role, setting, value)| Wanted {
                    scope: connection.to_owned(),
                    role,
                    change: Change { key: key(connection, setting), value: Some(value) },
                })
            })
            .collect()
    }

    fn off(&self, present: &Values) -> Vec<Change> {
        connections_of(present)
            .map(|connection| Change { key: key(connection, FLAGS), value: Some(DIRECT.to_string()) })
            .collect()
    }

    fn endpoint(&self, present: &Values) -> Option<SocketAddr> {
        if present.get(&key("", FLAGS))? != &flags_on().to_string() {
            return None;
        }
        http_server(present.get(&key("", SERVER))?)?.parse().ok()
    }

    fn write(&self, changes: &[Change]) -> Result<(), BackendError> {
        let present = self.read()?;
        let mut reachable = Vec::new();
        for connection in connections_of(&present) {
            // A connection's settings are written in one call: all of the change or nothing of it.
            let mut settings = settings_of(&present, connection);
            let mut any = false;
            for change in changes {
                let Some((name, setting)) = change.key.rsplit_once('|') else {
                    continue;
                };
                if name != connection {
                    continue;
                }
                any = true;
                reachable.push(change.clone());
                match setting {
                    FLAGS => {
                        settings.flags = change.value.as_deref().and_then(|value| value.parse().ok()).unwrap_or(DIRECT)
                    }
                    SERVER => settings.server.clone_from(&change.value),
                    BYPASS => settings.bypass.clone_from(&change.value),
                    SCRIPT => settings.script.clone_from(&change.value),
                    _ => {}
                }
            }
            if any {
                wininet::write(name_of(connection), &settings).map_err(failed)?;
            }
        }
        wininet::announce();
        // What belongs to a connection that has been removed can't be kept, and isn't in use.
        check_kept(NAME, &reachable, &self.read()?)
    }
}

fn failed(error: std::io::Error) -> BackendError {
    BackendError::Failed { what: "WinINet", why: error.to_string() }
}

/// The local network, then the connections that RAS knows. Where there is no RAS, the local network is all there is.
fn connections() -> Vec<String> {
    let mut all = vec![String::new()];
    match wininet::connections() {
        Ok(names) => all.extend(names),
        Err(error) => tracing::debug!(%error, "dial-up and VPN connections can't be listed"),
    }
    all
}

fn name_of(connection: &str) -> Option<&str> {
    (!connection.is_empty()).then_some(connection)
}

fn key(connection: &str, setting: &str) -> String {
    format!("{connection}|{setting}")
}

fn connections_of(present: &Values) -> impl Iterator<Item = &str> {
    present.keys().filter_map(|key| key.strip_suffix("|flags"))
}

fn settings_of(present: &Values, connection: &str) -> Settings {
    let text = |setting| present.get(&key(connection, setting)).cloned();
    Settings {
        flags: text(FLAGS).and_then(|flags| flags.parse().ok()).unwrap_or(DIRECT),
        server: text(SERVER),
        bypass: text(BYPASS),
        script: text(SCRIPT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_reads_back_and_comes_back() {
        let before = WinInet.read().unwrap();
        let target = ProxyTarget::new([127, 0, 0, 1].into(), 2080);
        WinInet.set(&target).unwrap();
        let now = WinInet.read().unwrap();
        assert_eq!(WinInet.endpoint(&now), Some("127.0.0.1:2080".parse().unwrap()));
        let back: Vec<Change> = now
            .keys()
            .chain(before.keys())
            .map(|key| Change { key: key.clone(), value: before.get(key).cloned() })
            .collect();
        WinInet.write(&back).unwrap();
        assert_eq!(WinInet.read().unwrap(), before);
    }
}
