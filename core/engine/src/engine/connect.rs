//! Connecting, step by step, each step shown as it passes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use culvert_ipc::types::{
    ConnectParams, ConnectionPhase, ConnectionStatus, MixedPort, Mode, NodeId, NodeRef, Problem, ReasonCode, Stage,
    StageState,
};
use culvert_ipc::{ErrorCode, Event, RpcError};
use culvert_system::process::{ProcessLookup, Transport};
use culvert_system::system_proxy::{ProxyTarget, Status};

use super::{Engine, no_such_node};
use crate::fetch::{Fetcher, Page, drain};
use crate::leave::{Leave, Way};
use crate::net::{Port, PortPlan};
use crate::problem::timed_out;
use crate::store::now_ms;

/// Ports that are tried after the wanted one.
const NEXT_PORTS: u16 = 20;
/// Time to verify a node, at least; the setting for tests may allow more.
const VERIFY_AT_LEAST: Duration = Duration::from_secs(8);

impl Engine {
    pub(super) fn status(&self) -> ConnectionStatus {
        self.status.lock().clone()
    }

    /// Changes the status and tells all readers.
    fn show(&self, change: impl FnOnce(&mut ConnectionStatus)) -> ConnectionStatus {
        let status = {
            let mut status = self.status.lock();
            change(&mut status);
            status.clone()
        };
        self.publisher.publish(&Event::Connection(status.clone()));
        status
    }

    /// Opens the way through a node; what is under way is given up for it.
    pub(super) async fn connect(&self, params: ConnectParams) -> Result<ConnectionStatus, RpcError> {
        let cancel = self.renew_cancel();
        let mut port = self.switching.lock().await;
        if cancel.is_cancelled() {
            return Ok(self.status());
        }
        let (node, leave) = self.find_way(params.node).await?;
        self.show(|status| {
            status.phase = ConnectionPhase::Connecting;
            status.node = Some(node.clone());
            status.connected_ms = None;
            status.stages.node = stage(StageState::Working, "connecting");
            status.stages.internet = Stage::default();
            if status.mixed.is_none() {
                status.stages.computer = stage(StageState::Working, "port");
            }
        });
        if port.is_none() {
            match self.open_port().await {
                Ok((opened, shown)) => {
                    *port = Some(opened);
                    self.show(|status| {
                        let place = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), shown.port).to_string();
                        status.stages.computer = stage(StageState::Verified, &place);
                        status.mixed = Some(shown);
                    });
                }
                Err(error) => {
                    self.show(|status| {
                        status.phase = ConnectionPhase::Failed;
                        let mut problem = Problem::new(ReasonCode::PortTaken, error.message.clone());
                        problem.params = error.params.clone();
                        status.stages.computer = failed(problem);
                        status.stages.node = Stage::default();
                    });
                    return Err(error);
                }
            }
        }
        self.router.set_way(Some(Way { node: Some(node.clone()), leave: Arc::clone(&leave) }));
        let mode = self.settings.lock().mode;
        self.show(|status| status.stages.rules = stage(StageState::Verified, mode_word(mode)));

        let verified = tokio::select! {
            () = cancel.cancelled() => return Ok(self.status()),
            verified = self.verify(&*leave) => verified,
        };
        let status = match verified {
            Ok(took) => {
                let id = node.id;
                if let Err(error) = self.stored(move |store| store.save_last_node(id)).await {
                    tracing::warn!("the last node can't be kept: {error}");
                }
                let took = format!("{} ms", took.as_millis());
                self.show(|status| {
                    status.phase = ConnectionPhase::Connected;
                    status.connected_ms = Some(now_ms());
                    status.stages.node = stage(StageState::Verified, &took);
                    status.stages.internet = stage(StageState::Verified, &took);
                })
            }
            Err(VerifyFailure { problem, node_works }) => {
                tracing::info!("a node failed: {:?}", problem.code);
                self.show(|status| {
                    status.phase = ConnectionPhase::Failed;
                    if node_works {
                        status.stages.node = stage(StageState::Verified, "");
                        status.stages.internet = failed(problem);
                    } else {
                        status.stages.node = failed(problem);
                    }
                })
            }
        };
        let wanted = params.system_proxy.unwrap_or_else(|| self.settings.lock().system_proxy);
        if wanted && status.phase == ConnectionPhase::Connected {
            return Ok(self.switch_system_proxy(true).await);
        }
        Ok(status)
    }

    /// Closes the port, ends the flows, puts the system's settings back.
    pub(super) async fn disconnect(&self) -> ConnectionStatus {
        self.renew_cancel().cancel();
        let mut port = self.switching.lock().await;
        if self.status().system_proxy {
            self.switch_system_proxy(false).await;
        }
        self.router.set_way(None);
        port.take();
        self.flows.close(None);
        self.show(|status| {
            *status = ConnectionStatus {
                node: status.node.take(),
                mode: status.mode,
                system_proxy: status.system_proxy,
                ..ConnectionStatus::default()
            };
        })
    }

    pub(super) async fn set_mode(&self, mode: Mode) -> Result<ConnectionStatus, RpcError> {
        self.router.set_mode(mode);
        let settings = {
            let mut settings = self.settings.lock();
            settings.mode = mode;
            settings.clone()
        };
        self.keep_settings(settings).await?;
        Ok(self.show(|status| {
            status.mode = mode;
            if status.stages.rules.state == StageState::Verified {
                status.stages.rules = stage(StageState::Verified, mode_word(mode));
            }
        }))
    }

    /// Points the system's proxy setting here, or puts the former values back.
    pub(super) async fn set_system_proxy(&self, on: bool) -> Result<ConnectionStatus, RpcError> {
        let _turn = self.switching.lock().await;
        let status = self.switch_system_proxy(on).await;
        if status.system_proxy == on {
            return Ok(status);
        }
        let reason = status
            .stages
            .computer
            .problem
            .map_or_else(|| "connect first: there is no local port yet".to_owned(), |problem| problem.message);
        Err(RpcError::new(ErrorCode::SystemProxy, format!("the system's proxy setting is unchanged: {reason}"))
            .with("reason", reason))
    }

    async fn switch_system_proxy(&self, on: bool) -> ConnectionStatus {
        let Some(mixed) = self.status().mixed else {
            return self.status();
        };
        let target = ProxyTarget::new(IpAddr::V4(Ipv4Addr::LOCALHOST), mixed.port);
        let system_proxy = Arc::clone(&self.system_proxy);
        let outcome = tokio::task::spawn_blocking(move || {
            let mut system_proxy = system_proxy.lock();
            let Some(system_proxy) = system_proxy.as_mut() else {
                return Err("this core was told not to touch it".to_owned());
            };
            if on {
                system_proxy.enable(&target).map_err(|error| error.to_string())?;
                match system_proxy.status().map_err(|error| error.to_string())? {
                    Status::On { changed_by_others, .. } if changed_by_others.is_empty() => Ok(true),
                    Status::On { .. } => Err("another program changes it back".to_owned()),
                    Status::Off => Ok(false),
                }
            } else {
                let restored = system_proxy.disable().map_err(|error| error.to_string())?;
                match restored.problems.first() {
                    Some(problem) => Err(problem.to_string()),
                    None => Ok(false),
                }
            }
        })
        .await
        .unwrap_or_else(|error| Err(error.to_string()));
        self.show(|status| match outcome {
            Ok(now) => {
                status.system_proxy = now;
                status.stages.computer.problem = None;
                if status.stages.computer.state == StageState::Degraded {
                    status.stages.computer.state = StageState::Verified;
                }
            }
            Err(reason) => {
                tracing::warn!("the system's proxy setting could not be switched: {reason}");
                status.stages.computer.state = StageState::Degraded;
                status.stages.computer.problem = Some(Problem::new(ReasonCode::SystemProxy, reason));
            }
        })
    }

    fn renew_cancel(&self) -> tokio_util::sync::CancellationToken {
        let fresh = tokio_util::sync::CancellationToken::new();
        std::mem::replace(&mut *self.cancel.lock(), fresh.clone()).cancel();
        fresh
    }

    /// The wanted node (or the last one, or the first that can be used) and the way through it.
    async fn find_way(&self, wanted: Option<NodeId>) -> Result<(NodeRef, Arc<dyn Leave>), RpcError> {
        let found = self
            .stored(move |store| {
                let id = match wanted {
                    Some(id) => Some(id),
                    None => match store.last_node()? {
                        Some(id) if store.node(id)?.is_some() => Some(id),
                        _ => store.usable_nodes()?.first().copied(),
                    },
                };
                id.map(|id| Ok((id, store.node(id)?))).transpose()
            })
            .await?;
        let Some((id, found)) = found else {
            return Err(RpcError::new(ErrorCode::NodeNotFound, "there is no node yet: import one first"));
        };
        let stored = found.ok_or_else(|| no_such_node(id))?;
        let leave = self.net.through(&stored.node).map_err(|problem| {
            RpcError::new(ErrorCode::NodeUnsupported, problem.message.clone()).with("reason", problem.message)
        })?;
        let name = if stored.node.name.is_empty() { stored.node.address } else { stored.node.name };
        Ok((NodeRef { id, name }, leave))
    }

    async fn open_port(&self) -> Result<(Box<dyn Port>, MixedPort), RpcError> {
        let (wanted, only_my_programs) = {
            let settings = self.settings.lock();
            (if settings.random_port { 0 } else { settings.mixed_port }, settings.only_my_programs)
        };
        let mut reason = String::new();
        let last = if wanted == 0 { 0 } else { wanted.saturating_add(NEXT_PORTS) };
        for number in wanted..=last {
            let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), number);
            let plan = PortPlan { address, only_my_programs };
            match self.net.open_port(plan, Arc::clone(&self.router), Arc::clone(&self.flows)).await {
                Ok(port) => {
                    let address = port.address();
                    let moved = wanted != 0 && address.port() != wanted;
                    let shown = MixedPort {
                        address: address.ip().to_string(),
                        port: address.port(),
                        wanted: moved.then_some(wanted),
                        holder: if moved { holder_of(wanted).await } else { None },
                    };
                    return Ok((port, shown));
                }
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => reason = error.to_string(),
                Err(error) => {
                    reason = error.to_string();
                    break;
                }
            }
        }
        let holder = holder_of(wanted).await;
        let mut error = RpcError::new(
            ErrorCode::PortTaken,
            format!(
                "no local port from {wanted} to {last} could be opened: {reason}{}",
                holder.as_deref().map(|name| format!(" ({name} holds {wanted})")).unwrap_or_default()
            ),
        )
        .with("address", format!("127.0.0.1:{wanted}"))
        .with("reason", &reason);
        if let Some(holder) = holder {
            error = error.with("holder", holder);
        }
        Err(error)
    }

    /// Fetches the test page through the node.
    async fn verify(&self, leave: &dyn Leave) -> Result<Duration, VerifyFailure> {
        let (url, expected, limit) = {
            let settings = self.settings.lock();
            let limit = Duration::from_millis(settings.test_timeout_ms.into()).max(VERIFY_AT_LEAST);
            (settings.test_url.clone(), settings.test_status, limit)
        };
        let page = Page::parse(&url).map_err(|reason| VerifyFailure {
            problem: Problem::new(ReasonCode::Internal, format!("the test page can't be used: {reason}")),
            node_works: true,
        })?;
        let mut opened = false;
        let fetch = async {
            let mut fetcher = Fetcher::open(page, leave).await.map_err(|(problem, _)| problem)?;
            opened = true;
            self.show(|status| status.stages.internet = stage(StageState::Working, "page"));
            let (response, took) = fetcher.get().await?;
            let status = response.status().as_u16();
            crate::measure::check_status(status, expected)?;
            drain(response, 64 * 1024).await?;
            Ok::<Duration, Problem>(took)
        };
        match tokio::time::timeout(limit, fetch).await {
            Ok(Ok(took)) => Ok(took),
            Ok(Err(problem)) => {
                // An answer of another status shows that the node works; silence does not.
                let node_works = problem.code == ReasonCode::Status;
                Err(VerifyFailure { problem, node_works })
            }
            Err(_) => {
                let phase = if opened { "first_byte" } else { "connecting" };
                Err(VerifyFailure { problem: timed_out(phase, limit), node_works: false })
            }
        }
    }
}

struct VerifyFailure {
    problem: Problem,
    node_works: bool,
}

fn stage(state: StageState, detail: &str) -> Stage {
    Stage { state, detail: (!detail.is_empty()).then(|| detail.to_owned()), problem: None, since_ms: now_ms() }
}

fn failed(problem: Problem) -> Stage {
    Stage { state: StageState::Failed, detail: None, problem: Some(problem), since_ms: now_ms() }
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Rule => "rule",
        Mode::Global => "global",
        Mode::Direct => "direct",
    }
}

async fn holder_of(port: u16) -> Option<String> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let look =
        move || ProcessLookup::new().listener_on(Transport::Tcp, address).ok().flatten().map(|owner| owner.label());
    tokio::task::spawn_blocking(look).await.ok().flatten()
}
