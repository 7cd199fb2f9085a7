//! Through a Trojan server.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use culvert_profile::node;
use culvert_profile::node::{Tls, Transport};
use culvert_wire::trojan::{Command, PasswordHash, put_request};
use culvert_wire::{Destination, Host};
use tokio::io::AsyncWriteExt;

use super::{Associated, ConnectError, ConnectRequest, Connected, Phase, Trace};
use crate::chunked::{ChunkedStream, Clear, NoHeader};
use crate::dial::Dialer;
use crate::stream_datagram::{StreamDatagrams, TrojanPackets};
use crate::transport;

/// A Trojan server and our password there.
#[derive(Clone)]
pub struct Trojan(Arc<Inner>);

struct Inner {
    server: Destination,
    password: PasswordHash,
    transport: Transport,
    tls: Tls,
}

impl Trojan {
    /// The outbound of these options, or why they can't be used.
    pub fn new(server: Destination, options: &node::Trojan) -> Result<Self, String> {
        transport::check(&options.transport, &options.tls)?;
        Ok(Self(Arc::new(Inner {
            server,
            password: PasswordHash::new(options.password.expose()),
            transport: options.transport.clone(),
            tls: options.tls.clone(),
        })))
    }

    /// A stream to the target.
    pub async fn connect(&self, dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
        let inner = &self.0;
        let mut trace = Trace::start();
        let stream = transport::connect(dialer, &inner.server, &inner.transport, &inner.tls, &mut trace).await?;
        let mut head = Vec::new();
        put_request(&inner.password, Command::Connect, &request.destination, &mut head);
        let answer = NoHeader::new(Box::new(Clear));
        let mut stream = ChunkedStream::new(stream, Box::new(Clear), Box::new(answer)).with_prefix(head);
        stream
            .write_all(&request.first_payload)
            .await
            .map_err(|e| ConnectError::io(&inner.server, Phase::Protocol, e))?;
        Ok(Connected { stream: Box::new(stream), trace })
    }

    /// A UDP association.
    pub async fn associate(&self, dialer: &Dialer) -> Result<Associated, ConnectError> {
        let inner = &self.0;
        let mut trace = Trace::start();
        let stream = transport::connect(dialer, &inner.server, &inner.transport, &inner.tls, &mut trace).await?;
        let mut head = Vec::new();
        // Servers look at the address of each datagram, not at this one.
        let anywhere = Destination::new(Host::Ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0);
        put_request(&inner.password, Command::Associate, &anywhere, &mut head);
        let flow = StreamDatagrams::new(stream, TrojanPackets, head, &[]);
        Ok(Associated { flow: Box::new(flow), trace })
    }
}
