//! What Culvert needs from the desktop and the operating system as an ordinary user: the system proxy and
//! its guard, which process a socket belongs to, the keyring, starting at login, changes of the network, and
//! where files belong.
//!
//! Everything here blocks (it runs small programs of the desktop, reads `/proc`, waits for locks): call it from
//! a thread that may wait, never from a shard.

pub mod autostart;
pub mod directories;
pub mod guard;
pub mod network_changes;
pub mod process;
pub mod secrets;
pub mod system_proxy;
#[cfg(unix)]
mod tool;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as os;

#[cfg(target_os = "windows")]
mod windows;
#[cfg(target_os = "windows")]
use windows as os;

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as os;

// The texts that the tools and interfaces of the other systems speak are read by code that any system can test.
#[cfg(all(test, not(target_os = "macos")))]
#[path = "macos/networksetup.rs"]
mod macos_networksetup;
#[cfg(all(test, not(target_os = "macos")))]
#[path = "macos/pcblist.rs"]
mod macos_pcblist;
#[cfg(all(test, not(target_os = "windows")))]
#[path = "windows/proxy_values.rs"]
mod windows_proxy_values;
