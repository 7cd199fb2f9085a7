//! The wall clock, for protocols that stamp their messages.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use culvert_wire::shadowsocks::Clock;

/// Unix time in seconds; 0 when the computer's clock stands before 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// [`unix_seconds`] as an argument of codecs.
pub fn clock() -> Clock {
    Arc::new(unix_seconds)
}
