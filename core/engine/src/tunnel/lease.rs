//! The rights to open a tunnel and to pass beside it: our own, or the helper's.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use culvert_helper_protocol::{DEVICE, MARK, MAX_QUEUES, Open, SOCKET};
use culvert_net::dial::{DialOptions, Dialer, Protect};
use culvert_net::resolver::Resolver;
use culvert_netstack::device::Capabilities;
use culvert_profile::Node;
use culvert_system_privileged::linux::client::Helper;
use culvert_system_privileged::linux::protect;
use culvert_system_privileged::linux::tun::TunOptions;
use culvert_system_privileged::linux::tunnel::{Places, Tunnel, TunnelPlan};
use culvert_wire::Host;
use socket2::SockRef;

use super::{TunnelFailure, TunnelSettings, capabilities};

/// CAP_NET_ADMIN, capabilities(7).
const NET_ADMIN: u32 = 12;
/// The most queues; each is a thread.
const MAX_SHARDS: usize = 8;
/// The device's addresses: of the block for benchmarks of networks (RFC 2544), which no network
/// uses, and a unique local one.
const ADDRESSES: [(IpAddr, u8); 2] = [
    (IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), 30),
    (IpAddr::V6(Ipv6Addr::new(0xfd63, 0x756c, 0x7665, 0, 0, 0, 0, 1)), 126),
];

enum Rights {
    /// Ours.
    Own { journal: PathBuf },
    /// The helper's.
    Helper(Helper),
}

/// Takes sockets beside the tunnel, before and while it is open.
#[derive(Clone)]
pub struct Bypass {
    rights: Arc<Rights>,
}

/// A tunnel that has been opened.
pub(super) struct Opened {
    pub(super) queues: Vec<OwnedFd>,
    pub(super) capabilities: Capabilities,
    pub(super) lease: Lease,
}

/// The tunnel, for as long as this lives.
pub(super) enum Lease {
    Own(Tunnel),
    Helper(HelperLease),
}

/// A tunnel that the helper holds; sockets may still be protected through the same connection.
pub(super) struct HelperLease {
    bypass: Bypass,
    closed: bool,
}

impl Bypass {
    /// Finds out whose rights are to be used. `journal` is the folder of this process's journal,
    /// used when the rights are its own.
    ///
    /// # Errors
    /// There are no rights, and no helper for this user.
    pub fn find(journal: &Path) -> Result<Self, TunnelFailure> {
        let rights = if may_change_networks() {
            Rights::Own { journal: journal.to_owned() }
        } else {
            Rights::Helper(Helper::connect(Path::new(SOCKET)).map_err(TunnelFailure::Rights)?)
        };
        Ok(Self { rights: Arc::new(rights) })
    }

    /// Whether the rights are this process's own, and so the journal.
    pub fn is_own(&self) -> bool {
        matches!(*self.rights, Rights::Own { .. })
    }

    /// A dialer that goes beside the tunnel, and knows the addresses of the nodes' servers: once
    /// the tunnel is open their names could only be asked for through the node.
    ///
    /// # Errors
    /// The node's name can't be resolved.
    pub async fn dialer(&self, node: Option<&Node>) -> Result<Dialer, TunnelFailure> {
        let resolver = Resolver::system();
        if let Some(node) = node
            && let Ok(Host::Name(name)) = Host::parse(&node.address)
        {
            let pinned = resolver.pin(&name).await;
            pinned.map_err(|source| TunnelFailure::Node { name: name.to_string(), source })?;
        }
        let options = DialOptions { protect: Some(Arc::new(self.clone())), ..DialOptions::default() };
        Ok(Dialer::new(options, resolver))
    }

    pub(super) fn open(&self, settings: &TunnelSettings) -> Result<Opened, TunnelFailure> {
        let queues = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_SHARDS);
        let queues = u8::try_from(queues).unwrap_or(1).min(MAX_QUEUES);
        match &*self.rights {
            Rights::Own { journal } => {
                let plan = TunnelPlan {
                    device: TunOptions {
                        name: DEVICE.to_owned(),
                        mtu: settings.mtu,
                        queues: u16::from(queues),
                        addresses: ADDRESSES.to_vec(),
                        owner: None,
                    },
                    mark: MARK,
                    excluded: Vec::new(),
                    local_direct: settings.local_direct,
                    resolver: Some(settings.names),
                };
                let mut tunnel = Tunnel::open(&plan, &Places::with_journal(journal))?;
                let granted = tunnel.offloads;
                Ok(Opened {
                    queues: tunnel.take_queues(),
                    capabilities: capabilities(
                        tunnel.mtu,
                        granted.checksum,
                        granted.tcp_segmentation,
                        granted.udp_segmentation,
                    ),
                    lease: Lease::Own(tunnel),
                })
            }
            Rights::Helper(helper) => {
                let open = Open {
                    mtu: settings.mtu,
                    queues,
                    addresses: ADDRESSES.to_vec(),
                    excluded: Vec::new(),
                    local_direct: settings.local_direct,
                    resolver: Some(settings.names),
                };
                let (opened, queues) = helper.open(open).map_err(TunnelFailure::Helper)?;
                Ok(Opened {
                    queues,
                    capabilities: capabilities(
                        opened.mtu,
                        opened.checksum,
                        opened.tcp_segmentation,
                        opened.udp_segmentation,
                    ),
                    lease: Lease::Helper(HelperLease { bypass: self.clone(), closed: false }),
                })
            }
        }
    }
}

impl Protect for Bypass {
    fn protect(&self, socket: SockRef<'_>, target: Option<SocketAddr>) -> io::Result<()> {
        match &*self.rights {
            Rights::Own { .. } => protect::mark(&*socket, MARK),
            Rights::Helper(helper) => {
                let target = target.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |target| target.ip());
                helper.protect(&*socket, target).map_err(io::Error::other)
            }
        }
    }
}

impl Lease {
    /// Undoes the tunnel.
    pub(super) fn close(self) -> Result<(), TunnelFailure> {
        match self {
            Self::Own(tunnel) => Ok(tunnel.close()?),
            Self::Helper(mut lease) => lease.close(),
        }
    }
}

impl HelperLease {
    fn close(&mut self) -> Result<(), TunnelFailure> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        match &*self.bypass.rights {
            Rights::Helper(helper) => helper.close().map_err(TunnelFailure::Helper),
            Rights::Own { .. } => Ok(()),
        }
    }
}

impl Drop for HelperLease {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("the tunnel can't be closed: {error}");
        }
    }
}

fn may_change_networks() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & (1 << NET_ADMIN) != 0)
}
