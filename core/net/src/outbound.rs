//! Outbounds: how a flow leaves this computer.

pub mod direct;
pub mod http;
mod per_target;
pub mod shadowsocks;
pub mod socks;
pub mod trojan;
pub mod vision;
pub mod vless;
pub mod vmess;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use culvert_profile::Node;
use culvert_profile::node::Protocol;
use culvert_wire::{Destination, Host};

use crate::datagram::BoxDatagramFlow;
use crate::dial::Dialer;
use crate::stream::BoxStream;

/// A way for flows to leave this computer.
///
/// A protocol's adapter is a file of its own beside this one: it asks
/// [`crate::transport::connect`] for a stream to its server, wraps it (most with
/// [`crate::chunked::ChunkedStream`]), queues `first_payload` behind its header and returns without
/// waiting for the server's answer, which several protocols send only with the first payload.
pub enum Outbound {
    /// Straight to the target.
    Direct,
    /// Nowhere.
    Block,
    /// Through a SOCKS proxy.
    Socks(socks::Socks),
    /// Through an HTTP proxy.
    Http(http::Http),
    /// Through a VMess server.
    Vmess(vmess::Vmess),
    /// Through a VLESS server.
    Vless(vless::Vless),
    /// Through a Shadowsocks server.
    Shadowsocks(shadowsocks::Shadowsocks),
    /// Through a Trojan server.
    Trojan(trojan::Trojan),
}

impl Outbound {
    /// The outbound of a node, or why this version can't use it.
    pub fn from_node(node: &Node) -> Result<Self, String> {
        if let Some(reason) = &node.unsupported {
            return Err(reason.clone());
        }
        let host = Host::parse(&node.address).map_err(|e| format!("the server address can't be used: {e}"))?;
        let server = Destination::new(host, node.port);
        match &node.protocol {
            Protocol::Socks(options) => socks::Socks::new(server, options).map(Self::Socks),
            Protocol::Http(options) => http::Http::new(server, options).map(Self::Http),
            Protocol::Vmess(options) => vmess::Vmess::new(server, options).map(Self::Vmess),
            Protocol::Vless(options) => vless::Vless::new(server, options).map(Self::Vless),
            Protocol::Shadowsocks(options) => shadowsocks::Shadowsocks::new(server, options).map(Self::Shadowsocks),
            Protocol::Trojan(options) => trojan::Trojan::new(server, options).map(Self::Trojan),
            Protocol::Hysteria2(_) => Err("Hysteria 2 is not supported yet".to_owned()),
            Protocol::Tuic(_) => Err("TUIC is not supported yet".to_owned()),
            Protocol::Anytls(_) => Err("AnyTLS is not supported yet".to_owned()),
            Protocol::Wireguard(_) => Err("WireGuard is not supported yet".to_owned()),
        }
    }

    /// Whether connecting touches the target itself, so that its answer (refused, unreachable) is
    /// known before the application is told.
    pub fn is_direct(&self) -> bool {
        match self {
            Self::Direct | Self::Block => true,
            Self::Socks(_)
            | Self::Http(_)
            | Self::Vmess(_)
            | Self::Vless(_)
            | Self::Shadowsocks(_)
            | Self::Trojan(_) => false,
        }
    }

    /// A stream to the target.
    pub async fn connect(&self, dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
        match self {
            Self::Direct => direct::connect(dialer, request).await,
            Self::Block => Err(ConnectError::NotOffered("blocked".to_owned())),
            Self::Socks(socks) => socks.connect(dialer, request).await,
            Self::Http(http) => http.connect(dialer, request).await,
            Self::Vmess(vmess) => vmess.connect(dialer, request).await,
            Self::Vless(vless) => vless.connect(dialer, request).await,
            Self::Shadowsocks(shadowsocks) => shadowsocks.connect(dialer, request).await,
            Self::Trojan(trojan) => trojan.connect(dialer, request).await,
        }
    }

    /// A UDP association.
    pub async fn associate(&self, dialer: &Dialer) -> Result<Associated, ConnectError> {
        match self {
            Self::Direct => Ok(direct::associate(dialer)),
            Self::Block => Err(ConnectError::NotOffered("blocked".to_owned())),
            Self::Socks(socks) => socks.associate(dialer).await,
            Self::Vmess(vmess) => vmess.associate(dialer).await,
            Self::Vless(vless) => vless.associate(dialer).await,
            Self::Shadowsocks(shadowsocks) => shadowsocks.associate(dialer).await,
            Self::Trojan(trojan) => trojan.associate(dialer).await,
            Self::Http(_) => Err(ConnectError::NotOffered("an HTTP proxy carries no UDP".to_owned())),
        }
    }
}

/// What an outbound is asked to reach.
#[derive(Debug, Clone)]
pub struct ConnectRequest {
    /// The target.
    pub destination: Destination,
    /// Bytes that the application has already sent; the outbound sends them first (with its own
    /// header, or as early data where the protocol has it). Empty when there are none.
    pub first_payload: Bytes,
}

/// Steps of a connection that are timed and named in errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Looking up the server's name.
    Resolve,
    /// The TCP (or QUIC) connection to the server.
    Dial,
    /// The TLS, REALITY or QUIC handshake.
    Security,
    /// The transport's own handshake (WebSocket upgrade, …).
    Transport,
    /// The protocol's own handshake.
    Protocol,
}

/// When each phase ended, as it passes. Shown for every connection.
#[derive(Debug, Clone)]
pub struct Trace {
    /// When the connection was asked for.
    pub started: Instant,
    /// Phases that ended, with the time since `started`.
    pub phases: Vec<(Phase, Duration)>,
}

impl Trace {
    /// A trace that starts now.
    pub fn start() -> Self {
        Self { started: Instant::now(), phases: Vec::with_capacity(5) }
    }

    /// Records that `phase` has ended now.
    pub fn mark(&mut self, phase: Phase) {
        self.phases.push((phase, self.started.elapsed()));
    }
}

/// Why a connection through an outbound failed; names the phase and the likely cause.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// The server's name could not be resolved.
    #[error("cannot resolve {name}: {reason}")]
    Resolve {
        /// The name.
        name: String,
        /// What the resolver said.
        reason: String,
    },
    /// The server refused the connection.
    #[error("{server} refused the connection")]
    Refused {
        /// Host and port.
        server: String,
    },
    /// A phase took longer than its limit.
    #[error("{server} did not answer in time ({phase:?})")]
    TimedOut {
        /// Host and port.
        server: String,
        /// The phase that did not end.
        phase: Phase,
    },
    /// The certificate is not trusted.
    #[error("the certificate of {server} is not trusted: {reason}")]
    Certificate {
        /// Host and port.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server's answer breaks the protocol, or it closed the connection; `hint` says what that
    /// usually means.
    #[error("{server}: {problem} ({hint})")]
    Handshake {
        /// Host and port.
        server: String,
        /// The phase that failed.
        phase: Phase,
        /// What happened.
        problem: String,
        /// What it usually means.
        hint: &'static str,
    },
    /// The proxy answered that it can't or won't reach the target.
    #[error("the proxy could not reach {destination}: {reason}")]
    Target {
        /// The target.
        destination: String,
        /// The proxy's answer.
        reason: String,
    },
    /// The outbound refuses by its nature (block, a UDP flow through a proxy without UDP).
    #[error("{0}")]
    NotOffered(String),
    /// Anything else that the system reports.
    #[error("{server}: {source}")]
    Io {
        /// Host and port.
        server: String,
        /// The phase.
        phase: Phase,
        /// The system's error.
        source: Arc<std::io::Error>,
    },
}

impl ConnectError {
    /// An error of I/O in `phase`; an early end is told as such.
    pub fn io(server: &Destination, phase: Phase, error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return Self::Handshake {
                server: server.to_string(),
                phase,
                problem: "the server closed the connection".to_owned(),
                hint: "is this the right port and protocol?",
            };
        }
        Self::Io { server: server.to_string(), phase, source: Arc::new(error) }
    }
}

/// A stream through an outbound, with the trace of how it came to be.
pub struct Connected {
    /// The stream; bytes written to it reach the target.
    pub stream: BoxStream,
    /// Timed phases.
    pub trace: Trace,
}

/// A UDP association through an outbound.
pub struct Associated {
    /// The association.
    pub flow: BoxDatagramFlow,
    /// Timed phases.
    pub trace: Trace,
}
