//! Vision, as a stream: VLESS's header and the padded start of a flow over our own TLS, which both
//! directions leave when the inner TLS allows it.

use std::io;

use culvert_profile::node::Tls;
use culvert_wire::vision::{SharedFilter, VisionOpen, VisionSeal};
use culvert_wire::{Destination, Host};

use tokio::io::AsyncWriteExt;

use crate::chunked::{ChunkedStream, NoHeader};
use crate::dial::Dialer;
use crate::outbound::{ConnectError, Phase, Trace};
use crate::random::SystemRandom;
use crate::stream::{BoxStream, Stream};
use crate::transport::browser_tls::{self, TlsConnection};
use crate::transport::reality;

/// The flow's name on the wire.
pub const FLOW: &str = "xtls-rprx-vision";

/// What a node's flow asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Whether UDP to port 443 (QUIC) is carried. When not, browsers fall back to TCP, where
    /// Vision saves the second encryption.
    pub udp_443: bool,
}

impl Flow {
    /// The flow that a node names; `None` for none, an error for one that is not known.
    pub fn parse(name: Option<&str>) -> Result<Option<Self>, String> {
        match name.unwrap_or_default() {
            "" | "none" => Ok(None),
            FLOW => Ok(Some(Self { udp_443: false })),
            "xtls-rprx-vision-udp443" => Ok(Some(Self { udp_443: true })),
            other => Err(format!("the VLESS flow {other} is unknown")),
        }
    }

    /// Refuses a datagram's target if the flow does not carry it.
    pub fn check_udp(self, destination: &Destination) -> Result<(), ConnectError> {
        if destination.port == 443 && !self.udp_443 {
            return Err(ConnectError::NotOffered(
                "Vision does not carry UDP to port 443, so that browsers use TCP there".to_owned(),
            ));
        }
        Ok(())
    }
}

/// Whether Vision can run over these TLS options; the reason when not.
pub fn check(tls: &Tls) -> Result<(), String> {
    if !tls.enabled {
        return Err("the flow xtls-rprx-vision needs TLS or REALITY".to_owned());
    }
    match &tls.reality {
        Some(reality) => reality::check(tls, reality),
        None => browser_tls::browser(tls).map(|_| ()),
    }
}

/// A flow over a finished handshake. `header` is VLESS's request (with the flow in it), `user` the
/// 16 bytes of the user's identifier. The header goes out in one record with the first payload.
pub async fn client<S: Stream>(
    connection: TlsConnection<S>,
    user: [u8; 16],
    header: Vec<u8>,
    first_payload: &[u8],
) -> io::Result<ChunkedStream<S>> {
    let filter = SharedFilter::default();
    let mut seal = VisionSeal::new(connection.established.seal, user, header, filter.clone());
    let open = VisionOpen::client(connection.established.open, user, filter);
    let mut prefix = connection.flight;
    if first_payload.is_empty() {
        // The header never travels alone: its record would have a size of its own.
        prefix.extend_from_slice(&seal.opening(&mut SystemRandom));
    }
    let mut stream = ChunkedStream::new(connection.io, Box::new(seal), Box::new(NoHeader::new(Box::new(open))))
        .with_received(&connection.received)
        .with_prefix(prefix);
    let queued = stream.queue(first_payload)?;
    stream.write_all(&first_payload[queued..]).await?;
    Ok(stream)
}

/// Security and Vision over a stream that already reaches `server`; `name` is the server name.
pub async fn over(
    dialer: &Dialer,
    stream: BoxStream,
    server: &Destination,
    name: &Host,
    tls: &Tls,
    (user, header, first_payload): ([u8; 16], Vec<u8>, &[u8]),
    trace: &mut Trace,
) -> Result<ChunkedStream<BoxStream>, ConnectError> {
    check(tls).map_err(ConnectError::NotOffered)?;
    let handshake = async {
        match &tls.reality {
            Some(options) => reality::connect(stream, server, name, tls, options).await,
            None => browser_tls::connect(stream, server, name, tls, &[]).await,
        }
    };
    let connection = dialer.phase(server, Phase::Security, trace, handshake).await?;
    client(connection, user, header, first_payload)
        .await
        .map_err(|error| ConnectError::io(server, Phase::Protocol, error))
}
