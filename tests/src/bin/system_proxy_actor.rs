//! A core and a guard reduced to the system proxy, for tests that kill them.
//!
//! `core STATE BACKEND` obeys lines on its input (`enable PORT`, `disable`, `repair`, `status`) and answers each with
//! one line; `guard BACKEND …` is its guard. BACKEND is `os`, or the path of a file that stands for the desktop's
//! setting (`KEY=VALUE` lines). `CULVERT_TEST_WRITE_PAUSE_MS` slows each single write to that file down.

use std::fs;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use culvert_system::guard::{self, GuardCommand};
use culvert_system::system_proxy::{
    Backend, BackendError, Change, ProxyTarget, Role, SystemProxy, Values, Wanted, backend, backends,
};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next();
    match role.as_ref().and_then(|role| role.to_str()) {
        Some("core") => {
            let state = PathBuf::from(arguments.next().unwrap_or_default());
            let setting = arguments.next().unwrap_or_default().into_string().unwrap_or_default();
            core(state, &setting);
        }
        Some("guard") => {
            let setting = arguments.next().unwrap_or_default().into_string().unwrap_or_default();
            let find = |name: &str| if setting == "os" { backend(name) } else { file_backend(&setting) };
            if guard::run_with(arguments, find).is_err() {
                std::process::exit(1);
            }
        }
        Some(_) | None => std::process::exit(2),
    }
}

fn core(state: PathBuf, setting: &str) {
    let list = if setting == "os" { backends() } else { file_backend(setting).into_iter().collect() };
    let program = std::env::var_os("CULVERT_TEST_GUARD").map(PathBuf::from).or_else(|| std::env::current_exe().ok());
    let guard = GuardCommand::new(program.unwrap_or_default(), ["guard", setting]);
    let mut proxy = SystemProxy::with(state, list, guard);
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else {
            break;
        };
        let answer = match line.split_once(' ').unwrap_or((&line, "")) {
            ("enable", port) => {
                let target = ProxyTarget::new([127, 0, 0, 1].into(), port.parse().unwrap_or_default());
                proxy.enable(&target).map_or_else(|error| format!("error {error}"), |enabled| format!("{enabled:?}"))
            }
            ("disable", _) => {
                proxy.disable().map_or_else(|error| format!("error {error}"), |restored| format!("{restored:?}"))
            }
            ("repair", _) => {
                proxy.repair_at_start().map_or_else(|error| format!("error {error}"), |repair| format!("{repair:?}"))
            }
            ("status", _) => {
                proxy.status().map_or_else(|error| format!("error {error}"), |status| format!("{status:?}"))
            }
            _ => "error what?".into(),
        };
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
}

struct FileBackend {
    file: PathBuf,
    pause: Duration,
}

fn file_backend(file: &str) -> Option<Box<dyn Backend>> {
    let pause =
        std::env::var("CULVERT_TEST_WRITE_PAUSE_MS").ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    Some(Box::new(FileBackend { file: file.into(), pause: Duration::from_millis(pause) }))
}

impl FileBackend {
    fn store(&self, values: &Values) -> std::io::Result<()> {
        let text: String = values.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        let partial = self.file.with_extension(format!("partial-{}", std::process::id()));
        fs::write(&partial, text)?;
        fs::rename(partial, &self.file)
    }
}

impl Backend for FileBackend {
    fn name(&self) -> &'static str {
        "file"
    }

    fn read(&self) -> Result<Values, BackendError> {
        let text = fs::read_to_string(&self.file)
            .map_err(|error| BackendError::Failed { what: "file", why: error.to_string() })?;
        Ok(text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.into(), value.into()))
            .collect())
    }

    fn wanted(&self, target: &ProxyTarget, _present: &Values) -> Vec<Wanted> {
        let one = |role, key: &str, value: String| Wanted {
            scope: "file".into(),
            role,
            change: Change { key: key.into(), value: Some(value) },
        };
        vec![
            one(Role::Endpoint, "host", target.host.to_string()),
            one(Role::Endpoint, "port", target.port.to_string()),
            one(Role::Detail, "bypass", target.bypass.join(",")),
            one(Role::Switch, "mode", "manual".into()),
        ]
    }

    fn off(&self, _present: &Values) -> Vec<Change> {
        vec![Change { key: "mode".into(), value: Some("none".into()) }]
    }

    fn endpoint(&self, present: &Values) -> Option<SocketAddr> {
        if present.get("mode")? != "manual" {
            return None;
        }
        format!("{}:{}", present.get("host")?, present.get("port")?).parse().ok()
    }

    fn write(&self, changes: &[Change]) -> Result<(), BackendError> {
        for change in changes {
            let mut values = self.read()?;
            match &change.value {
                Some(value) => values.insert(change.key.clone(), value.clone()),
                None => values.remove(&change.key),
            };
            self.store(&values).map_err(|error| BackendError::Failed { what: "file", why: error.to_string() })?;
            std::thread::sleep(self.pause);
        }
        Ok(())
    }
}
