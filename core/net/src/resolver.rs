//! From names to addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an answer of the system's resolver is used (it tells no time to live).
const SYSTEM_TTL: Duration = Duration::from_secs(60);
/// The most names that are remembered.
const CACHE_LIMIT: usize = 4096;

/// Why a name gave no address.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct ResolveError {
    /// What the resolver said.
    pub reason: String,
}

/// A resolver. Cheap to clone; clones share their cache.
#[derive(Debug, Clone)]
pub enum Resolver {
    /// The computer's own resolver (`getaddrinfo`), with a small cache in front.
    System(Arc<SystemResolver>),
}

impl Resolver {
    /// The computer's own resolver.
    pub fn system() -> Self {
        Self::System(Arc::default())
    }

    /// All addresses of `name`, in the resolver's order; at least one.
    pub async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        match self {
            Self::System(system) => system.resolve(name).await,
        }
    }

    /// Looks `name` up and keeps the answer for as long as this resolver lives: for the node's own
    /// name, which can't be asked for through the node.
    ///
    /// # Errors
    /// The name can't be resolved; nothing is kept.
    pub async fn pin(&self, name: &str) -> Result<(), ResolveError> {
        let addresses = self.resolve(name).await?;
        match self {
            Self::System(system) => system.pinned().insert(name.into(), addresses),
        };
        Ok(())
    }

    /// Forgets every answer that is not pinned (the network has changed).
    pub fn forget(&self) {
        match self {
            Self::System(system) => system.lock().clear(),
        }
    }
}

/// `getaddrinfo` with a cache.
#[derive(Debug, Default)]
pub struct SystemResolver {
    cache: Mutex<Cache>,
    pinned: Mutex<HashMap<Arc<str>, Vec<IpAddr>>>,
}

type Cache = HashMap<Arc<str>, (Instant, Vec<IpAddr>)>;

impl SystemResolver {
    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn pinned(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Vec<IpAddr>>> {
        self.pinned.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        if let Some(addresses) = self.pinned().get(name) {
            return Ok(addresses.clone());
        }
        if let Some((until, addresses)) = self.lock().get(name) {
            if *until > Instant::now() {
                return Ok(addresses.clone());
            }
        }
        let found = tokio::net::lookup_host((name, 0)).await.map_err(|e| ResolveError { reason: e.to_string() })?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in found {
            if !addresses.contains(&address.ip()) {
                addresses.push(address.ip());
            }
        }
        if addresses.is_empty() {
            return Err(ResolveError { reason: "the name has no address".to_owned() });
        }
        let mut cache = self.lock();
        if cache.len() >= CACHE_LIMIT {
            let now = Instant::now();
            cache.retain(|_, (until, _)| *until > now);
            if cache.len() >= CACHE_LIMIT {
                cache.clear();
            }
        }
        cache.insert(name.into(), (Instant::now() + SYSTEM_TTL, addresses.clone()));
        Ok(addresses)
    }
}
