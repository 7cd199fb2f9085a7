//! Failures of the net in the words of the interface: a code, values, a sentence.

use culvert_ipc::types::{Problem, ReasonCode};
use culvert_net::outbound::{ConnectError, Phase};

/// The stable word of a phase.
pub(crate) fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Resolve => "resolve",
        Phase::Dial => "dial",
        Phase::Security => "security",
        Phase::Transport => "transport",
        Phase::Protocol => "protocol",
    }
}

/// The problem that a failed connection shows.
pub(crate) fn of_connect(error: &ConnectError) -> Problem {
    let (code, values): (ReasonCode, Vec<(&str, String)>) = match error {
        ConnectError::Resolve { name, .. } => (ReasonCode::Resolve, vec![("name", name.clone())]),
        ConnectError::Refused { server } => (ReasonCode::Refused, vec![("server", server.clone())]),
        ConnectError::TimedOut { server, phase } => {
            (ReasonCode::TimedOut, vec![("server", server.clone()), ("phase", phase_word(*phase).to_owned())])
        }
        ConnectError::Certificate { server, .. } => (ReasonCode::Certificate, vec![("server", server.clone())]),
        ConnectError::Handshake { server, phase, hint, .. } => (
            ReasonCode::Handshake,
            vec![("server", server.clone()), ("phase", phase_word(*phase).to_owned()), ("hint", (*hint).to_owned())],
        ),
        ConnectError::Target { destination, .. } => (ReasonCode::Target, vec![("destination", destination.clone())]),
        ConnectError::NotOffered(_) => (ReasonCode::NotOffered, Vec::new()),
        ConnectError::Io { server, phase, .. } => {
            (ReasonCode::Network, vec![("server", server.clone()), ("phase", phase_word(*phase).to_owned())])
        }
    };
    let mut problem = Problem::new(code, error.to_string());
    for (name, value) in values {
        problem = problem.with(name, value);
    }
    problem
}

/// No answer within the time of a test; `phase` is the step that did not end.
pub(crate) fn timed_out(phase: &str, limit: std::time::Duration) -> Problem {
    Problem::new(ReasonCode::TimedOut, format!("no answer within {} ms ({phase})", limit.as_millis()))
        .with("phase", phase)
}
