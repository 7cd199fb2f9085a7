//! The socket itself: made so that only the person who runs the core can open it, and checked
//! again at each connection.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{Listener, Peer, connect};
#[cfg(windows)]
pub use windows::{Listener, Peer, connect};
