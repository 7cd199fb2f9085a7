//! What is right and wrong on this computer.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use culvert_ipc::types::{Check, CheckState, Checks};
use culvert_system::process::{ProcessLookup, Transport};
use culvert_system::system_proxy::Status;

use super::Engine;

impl Engine {
    pub(super) async fn check_up(&self) -> Checks {
        let mut checks = vec![self.check_data().await, self.check_secrets(), self.check_port().await];
        checks.push(self.check_system_proxy().await);
        Checks { checks }
    }

    async fn check_data(&self) -> Check {
        let folder = self.store.folder().display().to_string();
        match self.stored(super::Store::count_nodes).await {
            Ok(count) => check("data_folder", CheckState::Ok, format!("{count} nodes in {folder}")),
            Err(error) => check("data_folder", CheckState::Wrong, error.message),
        }
    }

    fn check_secrets(&self) -> Check {
        use crate::store::KeyPlace;
        match (self.store.locked(), self.store.key_place()) {
            (Some(reason), _) => check("secrets", CheckState::Wrong, reason),
            (None, Some(KeyPlace::Keyring)) => {
                check("secrets", CheckState::Ok, "the key of the secrets lies in the keyring".to_owned())
            }
            (None, Some(KeyPlace::File)) => check(
                "secrets",
                CheckState::Notice,
                "there is no keyring here: the key of the secrets lies in a file that only you can read".to_owned(),
            ),
            (None, None) => check("secrets", CheckState::Ok, "no secret has been needed yet".to_owned()),
        }
    }

    async fn check_port(&self) -> Check {
        if let Some(mixed) = self.status().mixed {
            let state = if mixed.wanted.is_some() { CheckState::Notice } else { CheckState::Ok };
            return check("mixed_port", state, format!("listens at {}:{}", mixed.address, mixed.port));
        }
        let port = self.settings.lock().mixed_port;
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let look = move || ProcessLookup::new().listener_on(Transport::Tcp, address);
        match tokio::task::spawn_blocking(look).await {
            Ok(Ok(Some(owner))) => check(
                "mixed_port",
                CheckState::Notice,
                format!("{} holds port {port}; the next free one will be taken", owner.label()),
            ),
            Ok(Ok(None)) => check("mixed_port", CheckState::Ok, format!("port {port} is free")),
            Ok(Err(error)) => check("mixed_port", CheckState::Notice, error.to_string()),
            Err(error) => check("mixed_port", CheckState::Wrong, error.to_string()),
        }
    }

    async fn check_system_proxy(&self) -> Check {
        let system_proxy = Arc::clone(&self.system_proxy);
        let look = move || system_proxy.lock().as_ref().map(culvert_system::system_proxy::SystemProxy::status);
        let (state, message) = match tokio::task::spawn_blocking(look).await {
            Ok(None) => (CheckState::Notice, "this core does not touch the system's proxy setting".to_owned()),
            Ok(Some(Ok(Status::Off))) => (CheckState::Ok, "the system's proxy setting is not ours".to_owned()),
            Ok(Some(Ok(Status::On { guarded, changed_by_others }))) => {
                if !changed_by_others.is_empty() {
                    let keys = changed_by_others.join(", ");
                    (CheckState::Wrong, format!("another program changed the system's proxy setting: {keys}"))
                } else if guarded {
                    (CheckState::Ok, "the system's proxy setting points here and is guarded".to_owned())
                } else {
                    (CheckState::Notice, "the system's proxy setting points here, without a guard".to_owned())
                }
            }
            Ok(Some(Err(error))) => (CheckState::Wrong, error.to_string()),
            Err(error) => (CheckState::Wrong, error.to_string()),
        };
        check("system_proxy", state, message)
    }
}

fn check(code: &str, state: CheckState, message: String) -> Check {
    Check { code: code.to_owned(), state, message }
}
