//! The caller's side of the helper: a core without privileges opens its tunnel through this.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use culvert_helper_protocol::{Answer, MAX_MESSAGE, MessageError, Open, Opened, Prefix, Report, Request};

use super::channel::Channel;

/// Opening a tunnel takes the helper some tens of milliseconds; a busy machine longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to the helper. When it goes, so does the tunnel that was opened through it.
/// Calls block for a round trip; they may come from several threads.
#[derive(Debug)]
pub struct Helper {
    channel: Mutex<Channel>,
}

/// Why the helper does not do something.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// Nobody answers.
    #[error("the helper can't be reached ({0}); is it installed for this user?")]
    Unreachable(io::Error),
    /// It speaks otherwise.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// It answers something else than was asked.
    #[error("the helper's answer does not fit the question")]
    Unexpected,
    /// It refuses, or the system does.
    #[error("the helper: {0}")]
    Failed(String),
}

impl Helper {
    /// Connects to the helper that listens at `path` (`culvert_helper_protocol::SOCKET`).
    ///
    /// # Errors
    /// No helper is there, or it is not for this user.
    pub fn connect(path: &Path) -> Result<Self, HelperError> {
        let channel = Channel::connect(path).map_err(HelperError::Unreachable)?;
        channel.set_patience(Some(PATIENCE)).map_err(HelperError::Unreachable)?;
        Ok(Self { channel: Mutex::new(channel) })
    }

    /// Opens the tunnel: its device, and the device's queues.
    ///
    /// # Errors
    /// Another tunnel is open, or the system refuses; then all is as before.
    pub fn open(&self, open: Open) -> Result<(Opened, Vec<OwnedFd>), HelperError> {
        let wanted = usize::from(open.queues);
        match self.ask(&Request::Open(open), &[])? {
            (Answer::Opened(opened), queues) if queues.len() == wanted => Ok((opened, queues)),
            _ => Err(HelperError::Unexpected),
        }
    }

    /// Undoes the tunnel.
    ///
    /// # Errors
    /// A step that the system refuses.
    pub fn close(&self) -> Result<(), HelperError> {
        self.done(&Request::Close, &[])
    }

    /// Lets an unconnected socket pass beside the tunnel. Loopback needs no helper and is not asked
    /// for.
    ///
    /// # Errors
    /// The helper has gone, or it is no socket.
    pub fn protect(&self, socket: &impl AsFd, target: IpAddr) -> Result<(), HelperError> {
        if target.is_loopback() {
            return Ok(());
        }
        self.done(&Request::Protect, &[socket.as_fd()])
    }

    /// Sets the kill switch; the prefixes stay reachable. It stays until it is released.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn arm_kill_switch(&self, allowed: Vec<Prefix>) -> Result<(), HelperError> {
        self.done(&Request::ArmKillSwitch(allowed), &[])
    }

    /// Takes the kill switch away.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn release_kill_switch(&self) -> Result<(), HelperError> {
        self.done(&Request::ReleaseKillSwitch, &[])
    }

    /// How things are.
    ///
    /// # Errors
    /// The helper has gone, or can't ask the system.
    pub fn report(&self) -> Result<Report, HelperError> {
        match self.ask(&Request::Report, &[])? {
            (Answer::Report(report), _) => Ok(report),
            _ => Err(HelperError::Unexpected),
        }
    }

    fn done(&self, request: &Request, beside: &[BorrowedFd<'_>]) -> Result<(), HelperError> {
        match self.ask(request, beside)? {
            (Answer::Done, _) => Ok(()),
            _ => Err(HelperError::Unexpected),
        }
    }

    fn ask(&self, request: &Request, beside: &[BorrowedFd<'_>]) -> Result<(Answer, Vec<OwnedFd>), HelperError> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(&request.encode(), beside).map_err(HelperError::Unreachable)?;
        let packet = channel.receive(MAX_MESSAGE).map_err(HelperError::Unreachable)?;
        if packet.bytes.is_empty() {
            return Err(HelperError::Unreachable(io::ErrorKind::ConnectionReset.into()));
        }
        match Answer::decode(&packet.bytes)? {
            Answer::Failed { reason } => Err(HelperError::Failed(reason)),
            answer @ (Answer::Opened(_) | Answer::Done | Answer::Report(_)) => Ok((answer, packet.descriptors)),
        }
    }
}
