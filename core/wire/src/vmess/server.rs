//! The server's side of the header: who asks, for what, and was it asked before.

use super::header::AUTH_ID;
use super::{CLOCK_TOLERANCE, HeaderError, Session, UserKey};
use crate::address::Destination;
use crate::replay::SeenRecently;

/// Requests remembered in a window of [`CLOCK_TOLERANCE`] seconds; more are refused.
const REMEMBERED: usize = 1 << 18;

/// An accepted request.
#[derive(Debug)]
pub struct Accepted {
    /// Place of the user in the list given to [`Server::new`].
    pub user: usize,
    /// Keys and options.
    pub session: Session,
    /// Command of the request.
    pub command: super::Command,
    /// Target; absent for [`super::Command::Mux`].
    pub destination: Option<Destination>,
    /// Bytes of input that the header took.
    pub consumed: usize,
}

/// What [`Server::read`] found.
#[derive(Debug)]
pub enum Step {
    /// At least this many bytes are needed in all.
    NeedMore(usize),
    /// A whole, authentic, fresh request.
    Request(Box<Accepted>),
}

/// Why a request is refused. A server tells its client nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No user made this header.
    #[error("no user made this request")]
    UnknownUser,
    /// A user made it at a time too far from ours. `seconds` is theirs minus ours.
    #[error("the client's clock differs by {seconds} s")]
    ClockSkew {
        /// Their clock minus ours.
        seconds: i64,
    },
    /// It was seen before, or too many were.
    #[error("the request was seen before")]
    Replayed,
    /// It can't be used.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

/// The users of a server and the requests seen lately.
pub struct Server {
    users: Vec<UserKey>,
    seen: SeenRecently<[u8; AUTH_ID]>,
}

impl Server {
    /// A server for the users with these identifiers.
    pub fn new(users: &[[u8; 16]]) -> Self {
        Self {
            users: users.iter().map(UserKey::new).collect(),
            // A value is remembered for at least the window; an identifier is valid from 120 s before
            // its time to 120 s after it.
            seen: SeenRecently::new(2 * CLOCK_TOLERANCE, REMEMBERED),
        }
    }

    /// Reads the header at the front of `input`. `now` is Unix time in seconds. Call again with
    /// more bytes while it needs more.
    pub fn read(&mut self, input: &[u8], now: u64) -> Result<Step, RequestError> {
        let Some(auth_id) = input.first_chunk::<AUTH_ID>() else {
            return Ok(Step::NeedMore(AUTH_ID));
        };
        let (place, time) = self
            .users
            .iter()
            .enumerate()
            .find_map(|(place, user)| user.recognise(auth_id).map(|time| (place, time)))
            .ok_or(RequestError::UnknownUser)?;
        if time.abs_diff(now) > CLOCK_TOLERANCE {
            let apart = i64::try_from(time.abs_diff(now)).unwrap_or(i64::MAX);
            return Err(RequestError::ClockSkew { seconds: if time > now { apart } else { -apart } });
        }
        match self.users[place].open_request(input)? {
            Err(needed) => Ok(Step::NeedMore(needed)),
            Ok(opened) => {
                if !self.seen.admit(*auth_id, now) {
                    return Err(RequestError::Replayed);
                }
                Ok(Step::Request(Box::new(Accepted {
                    user: place,
                    command: opened.session.command,
                    session: opened.session,
                    destination: opened.destination,
                    consumed: opened.consumed,
                })))
            }
        }
    }
}
