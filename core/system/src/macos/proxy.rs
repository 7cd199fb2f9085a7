//! macOS's proxy settings, a set for each network service, through `networksetup`, which an administrator's session
//! may run without a password.
//!
//! Keys are `SERVICE/SETTING`. A name and password that a service has for its former proxy are not told by the
//! program and can't be put back by it; they stay in the keychain, where the system finds them again.

use std::net::SocketAddr;
use std::process::Command;

use super::networksetup;
use crate::system_proxy::{Backend, BackendError, Change, ProxyTarget, Role, Values, Wanted, bypass, check_kept};
use crate::tool;

pub(crate) const NAME: &str = "macos";
const PROGRAM: &str = "/usr/sbin/networksetup";
/// Setting, how it is read, how it is written, how it is switched.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("web", "-getwebproxy", "-setwebproxy", "-setwebproxystate"),
    ("secure", "-getsecurewebproxy", "-setsecurewebproxy", "-setsecurewebproxystate"),
    ("socks", "-getsocksfirewallproxy", "-setsocksfirewallproxy", "-setsocksfirewallproxystate"),
];
const ON: &str = "on";
const OFF: &str = "off";
/// What stands for an empty list.
const NONE: &str = "Empty";

#[derive(Debug)]
pub(crate) struct NetworkSetup;

impl Backend for NetworkSetup {
    fn name(&self) -> &'static str {
        NAME
    }

    fn read(&self) -> Result<Values, BackendError> {
        let mut values = Values::new();
        for service in networksetup::services(&run(&["-listallnetworkservices"])?) {
            let mut put = |setting: &str, value: String| values.insert(format!("{service}/{setting}"), value);
            for (kind, get, _, _) in KINDS {
                let text = run(&[get, &service])?;
                let fields = networksetup::fields(&text);
                let field = |name: &str| fields.get(name).copied().unwrap_or_default();
                put(&format!("{kind}.address"), format!("{} {}", field("Server"), field("Port")));
                put(&format!("{kind}.state"), state(field("Enabled") == "Yes"));
            }
            let text = run(&["-getautoproxyurl", &service])?;
            let fields = networksetup::fields(&text);
            put("auto.url", fields.get("URL").copied().unwrap_or_default().to_owned());
            put("auto.state", state(fields.get("Enabled").copied() == Some("Yes")));
            put("discovery.state", state(run(&["-getproxyautodiscovery", &service])?.trim_end().ends_with("On")));
            put("bypass", networksetup::domains(&run(&["-getproxybypassdomains", &service])?).join(" "));
        }
        Ok(values)
    }

    fn wanted(&self, target: &ProxyTarget, present: &Values) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for service in services_of(present) {
            let mut one = |role, setting: &str, value: String| {
                wanted.push(Wanted {
                    scope: service.to_owned(),
                    role,
                    change: Change { key: format!("{service}/{setting}"), value: Some(value) },
                });
            };
            for (kind, ..) in KINDS {
                one(Role::Endpoint, &format!("{kind}.address"), format!("{} {}", target.host, target.port));
            }
            one(Role::Detail, "bypass", bypass::valid(&target.bypass).collect::<Vec<_>>().join(" "));
            // A script, or the search for one, would come before the fixed proxy.
            one(Role::Switch, "auto.state", OFF.into());
            one(Role::Switch, "discovery.state", OFF.into());
            for (kind, ..) in KINDS {
                one(Role::Switch, &format!("{kind}.state"), ON.into());
            }
        }
        wanted
    }

    fn off(&self, present: &Values) -> Vec<Change> {
        services_of(present)
            .flat_map(|service| {
                KINDS.map(|(kind, ..)| Change { key: format!("{service}/{kind}.state"), value: Some(OFF.into()) })
            })
            .collect()
    }

    fn endpoint(&self, present: &Values) -> Option<SocketAddr> {
        services_of(present).find_map(|service| {
            if present.get(&format!("{service}/web.state"))? != ON {
                return None;
            }
            let (host, port) = present.get(&format!("{service}/web.address"))?.split_once(' ')?;
            Some(SocketAddr::new(host.parse().ok()?, port.parse().ok()?))
        })
    }

    fn write(&self, changes: &[Change]) -> Result<(), BackendError> {
        let before = self.read()?;
        let present = services_of(&before).collect::<Vec<_>>();
        // A service that has been removed or switched off can't be written; what it holds isn't in use either.
        let reachable: Vec<Change> = changes
            .iter()
            .filter(|change| present.iter().any(|service| service_of(&change.key) == Some(service)))
            .cloned()
            .collect();
        // Writing an address switches its kind on, so the states go last.
        for states in [false, true] {
            for change in &reachable {
                if change.key.ends_with(".state") == states || change.value.as_deref() == Some(OFF) {
                    write_one(change)?;
                }
            }
        }
        // An address that was put back switched its kind on: say once more which are off.
        let now = self.read()?;
        for (key, value) in &before {
            let wanted =
                reachable.iter().find(|change| change.key == *key).map_or(Some(value), |change| change.value.as_ref());
            if key.ends_with(".state") && now.get(key) != wanted {
                write_one(&Change { key: key.clone(), value: wanted.cloned() })?;
            }
        }
        check_kept(NAME, &reachable, &self.read()?)
    }
}

fn write_one(change: &Change) -> Result<(), BackendError> {
    let wrong = || BackendError::Failed { what: "networksetup", why: format!("{} is not a key of it", change.key) };
    let (service, setting) = change.key.rsplit_once('/').ok_or_else(wrong)?;
    let value = change.value.as_deref().unwrap_or_default();
    let outcome = match setting {
        "bypass" if value.is_empty() => run(&["-setproxybypassdomains", service, NONE]),
        "bypass" => {
            let mut arguments = vec!["-setproxybypassdomains", service];
            arguments.extend(value.split(' '));
            run(&arguments)
        }
        "auto.url" if value.is_empty() => return Ok(()),
        "auto.url" => run(&["-setautoproxyurl", service, value]),
        "auto.state" => run(&["-setautoproxystate", service, value]),
        "discovery.state" => run(&["-setproxyautodiscovery", service, value]),
        _ => {
            let (kind, part) = setting.split_once('.').ok_or_else(wrong)?;
            let (_, _, set, switch) = KINDS.into_iter().find(|(name, ..)| *name == kind).ok_or_else(wrong)?;
            match (part, value.split_once(' ')) {
                ("state", _) => run(&[switch, service, value]),
                // No server before us: an empty name with port 0 is how the system stores that.
                ("address", Some((host, port))) => run(&[set, service, host, if port.is_empty() { "0" } else { port }]),
                _ => return Err(wrong()),
            }
        }
    };
    outcome.map(|_| ())
}

fn state(on: bool) -> String {
    if on { ON.into() } else { OFF.into() }
}

fn service_of(key: &str) -> Option<&str> {
    // A service's name may hold a slash, a setting's doesn't.
    Some(key.rsplit_once('/')?.0)
}

fn services_of(present: &Values) -> impl Iterator<Item = &str> {
    present.keys().filter(|key| key.ends_with("/bypass")).filter_map(|key| service_of(key))
}

fn run(arguments: &[&str]) -> Result<String, BackendError> {
    tool::run("networksetup", Command::new(PROGRAM).args(arguments).env("LC_ALL", "en_US.UTF-8"))
}
