//! Outbounds: how a flow leaves this computer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use culvert_wire::Destination;

use crate::datagram::BoxDatagramFlow;
use crate::stream::BoxStream;

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
        Self {
            started: Instant::now(),
            phases: Vec::with_capacity(5),
        }
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
