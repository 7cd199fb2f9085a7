//! A small program around the TUN inbound, for tests and benchmarks: every flow goes directly
//! (bound to a link, past the tunnel) or through a SOCKS5 server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use culvert_net::dial::{DialOptions, Dialer};
use culvert_net::inbound::tun::{ThroughOutbound, TunInbound, linux_queue};
use culvert_net::outbound::Outbound;
use culvert_net::outbound::socks::Socks;
use culvert_net::resolver::Resolver;
use culvert_netstack::device::Capabilities;
use culvert_netstack::stack::Limits;
use culvert_profile::node;
use culvert_system_privileged::linux::tun::{TunDevice, TunOptions};
use culvert_wire::Destination;

/// Where flows go.
#[derive(Debug, Clone)]
pub enum Way {
    /// Directly, out of the named link.
    Direct(String),
    /// Through a SOCKS5 server without authentication.
    Socks5(SocketAddr),
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The device's name.
    pub name: String,
    /// Its MTU.
    pub mtu: u16,
    /// Its queues.
    pub queues: u16,
    /// Whether to use what the kernel takes over.
    pub offloads: bool,
    /// Where flows go.
    pub way: Way,
}

/// Opens the device and serves it.
///
/// # Errors
/// The device can't be opened.
pub fn start(options: &Options) -> io::Result<TunInbound> {
    let device = TunDevice::open(&TunOptions {
        name: options.name.clone(),
        mtu: options.mtu,
        queues: options.queues,
        addresses: vec![
            (IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), 30),
            (IpAddr::V6(Ipv6Addr::new(0xfdc0, 0x203, 0, 0, 0, 0, 0, 1)), 126),
        ],
        owner: None,
    })
    .map_err(io::Error::other)?;
    let granted = device.offloads;
    let capabilities = if options.offloads {
        Capabilities {
            mtu: usize::from(device.mtu),
            checksum: granted.checksum,
            tcp_segmentation: granted.tcp_segmentation,
            udp_segmentation: granted.udp_segmentation,
        }
    } else {
        Capabilities::plain(usize::from(device.mtu))
    };
    let queues = device.queues.into_iter().map(|queue| linux_queue(queue, true, capabilities)).collect();
    TunInbound::start(queues, &dispatch(&options.way)?, Limits::default())
}

/// Every flow one way, with the product's own outbounds.
fn dispatch(way: &Way) -> io::Result<ThroughOutbound> {
    let mut options = DialOptions::default();
    let outbound = match way {
        Way::Direct(link) => {
            options.interface = Some(link.clone());
            Outbound::Direct
        }
        Way::Socks5(server) => {
            let settings = node::Socks { version: "5".to_owned(), username: None, password: None };
            let socks = Socks::new(Destination::from(*server), &settings);
            Outbound::Socks(socks.map_err(io::Error::other)?)
        }
    };
    let dialer = Dialer::new(options, Resolver::system());
    Ok(ThroughOutbound::new(Arc::new(outbound), dialer))
}
