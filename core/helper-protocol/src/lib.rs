//! The privileged helper's messages and their bounded codec.
//!
//! The helper and its caller trade packets over a local sequenced-packet socket: one message a
//! packet, at most `MAX_MESSAGE` bytes, descriptors beside it. The first byte is the version, the
//! second the kind. Numbers are in network order. Nothing is read beyond a message's end, and a
//! message with bytes left over is refused.

mod codec;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

/// The version of the messages. Both sides must have the same.
pub const VERSION: u8 = 1;
/// The largest message in bytes.
pub const MAX_MESSAGE: usize = 8 * 1024;
/// The most addresses of a device.
pub const MAX_ADDRESSES: usize = 8;
/// The most prefixes in one message.
pub const MAX_PREFIXES: usize = 256;
/// The most queues of a device; each is a descriptor beside the answer.
pub const MAX_QUEUES: u8 = 64;
/// The longest reason in bytes.
pub const MAX_REASON: usize = 512;
/// Where the helper listens on Linux.
pub const SOCKET: &str = "/run/culvert/helper.sock";
/// The name of the helper's device.
pub const DEVICE: &str = "culvert0";
/// The mark of protected sockets.
pub const MARK: u32 = 0x6375_6c76;

/// Addresses that share their first bits: an address and how many.
pub type Prefix = (IpAddr, u8);

/// What a caller may ask for. Nothing else is done for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Open the tunnel; it lasts until `Close` or the end of the connection. Answer: `Opened`,
    /// the queues beside it.
    Open(Open),
    /// Undo the tunnel. Answer: `Done`.
    Close,
    /// Let the unconnected socket beside this message pass beside the tunnel. Answer: `Done`.
    Protect,
    /// Set the kill switch; these prefixes stay reachable. It outlasts the connection. Answer:
    /// `Done`.
    ArmKillSwitch(Vec<Prefix>),
    /// Take the kill switch away. Answer: `Done`.
    ReleaseKillSwitch,
    /// Say how things are. Answer: `Report`.
    Report,
}

/// The tunnel to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The MTU in bytes, 1280 to 65535.
    pub mtu: u16,
    /// Queues, 1 to `MAX_QUEUES`.
    pub queues: u8,
    /// The device's addresses, at most `MAX_ADDRESSES`.
    pub addresses: Vec<Prefix>,
    /// What stays outside of the tunnel, at most `MAX_PREFIXES`.
    pub excluded: Vec<Prefix>,
    /// Whether what the machine reaches by a route of its own stays outside of the tunnel.
    pub local_direct: bool,
    /// The resolver that applications are given.
    pub resolver: Option<IpAddr>,
}

/// What the helper answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The tunnel is open; its queues are beside this message.
    Opened(Opened),
    /// It is done.
    Done,
    /// How things are.
    Report(Report),
    /// It was not done.
    Failed {
        /// Why, and what to do; at most `MAX_REASON` bytes.
        reason: String,
    },
}

/// The open tunnel's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Its interface index.
    pub index: u32,
    /// Its MTU in bytes.
    pub mtu: u16,
    /// Packets have the virtio-net header, and checksums may be left to the kernel.
    pub checksum: bool,
    /// TCP segmentation is the kernel's.
    pub tcp_segmentation: bool,
    /// UDP segmentation is the kernel's.
    pub udp_segmentation: bool,
    /// Names asked beside the tunnel are dropped by the firewall.
    pub names_guarded: bool,
}

/// How things are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Whether this caller has a tunnel open.
    pub open: bool,
    /// The kill switch.
    pub kill_switch: KillSwitch,
}

/// The kill switch's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillSwitch {
    /// Nothing is kept back.
    Off,
    /// Set, and a tunnel is there.
    Armed,
    /// Set, and no tunnel is there.
    Blocking,
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The other side is of another version.
    #[error(
        "the helper and the core are of different versions (message version {0}, here {VERSION}); \
         install the helper again"
    )]
    Version(u8),
    /// It ends early, goes on after its end, or holds what it can't.
    #[error("a message of the helper's socket is malformed: {0}")]
    Malformed(&'static str),
}
