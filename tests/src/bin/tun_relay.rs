//! Serves a TUN device in the namespace that it runs in: `tun_relay NAME MTU QUEUES WAY [plain]`,
//! where WAY is `direct:LINK` or `socks5:ADDRESS:PORT`. Writes `ready` and runs until it is killed.

use std::io;

use culvert_tests::tun_relay::{Options, Way, start};

#[expect(clippy::print_stdout, reason = "says that it is ready")]
fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, mtu, queues, way, rest @ ..] = arguments.as_slice() else {
        return Err(io::Error::other("usage: tun_relay NAME MTU QUEUES direct:LINK|socks5:SERVER [plain]"));
    };
    let way = match way.split_once(':') {
        Some(("direct", link)) => Way::Direct(link.to_owned()),
        Some(("socks5", server)) => Way::Socks5(server.parse().map_err(io::Error::other)?),
        _ => return Err(io::Error::other("the way is direct:LINK or socks5:ADDRESS:PORT")),
    };
    let inbound = start(&Options {
        name: name.clone(),
        mtu: mtu.parse().map_err(io::Error::other)?,
        queues: queues.parse().map_err(io::Error::other)?,
        offloads: rest.first().is_none_or(|word| word != "plain"),
        way,
    })?;
    println!("ready");
    while !inbound.has_failed() {
        std::thread::park_timeout(std::time::Duration::from_secs(1));
    }
    inbound.stop()
}
