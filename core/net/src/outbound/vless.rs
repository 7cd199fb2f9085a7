//! Through a VLESS server, without an encryption of its own.

use std::sync::Arc;

use culvert_profile::node;
use culvert_profile::node::{Tls, Transport};
use culvert_wire::Destination;
use culvert_wire::user_id::parse_user_id;
use culvert_wire::vless::{Command, DatagramOpen, DatagramSeal, Response, put_request};
use tokio::io::AsyncWriteExt;

use super::per_target::PerTarget;
use super::{Associated, ConnectError, ConnectRequest, Connected, Phase, Trace};
use crate::chunked::{Answer, ChunkedStream, Clear};
use crate::datagram::BoxDatagramFlow;
use crate::dial::Dialer;
use crate::stream::BoxStream;
use crate::stream_datagram::{ChunkPackets, StreamDatagrams};
use crate::transport;

/// A VLESS server and our account there.
#[derive(Clone)]
pub struct Vless(Arc<Inner>);

struct Inner {
    server: Destination,
    user: [u8; 16],
    transport: Transport,
    tls: Tls,
}

impl Vless {
    /// The outbound of these options, or why they can't be used.
    pub fn new(server: Destination, options: &node::Vless) -> Result<Self, String> {
        if !matches!(options.encryption.as_str(), "" | "none") {
            return Err("VLESS encryption is not supported yet".to_owned());
        }
        if let Some(flow) = options.flow.as_deref().filter(|flow| !flow.is_empty()) {
            return Err(format!("the flow {flow} is not supported yet"));
        }
        let user = parse_user_id(options.user.uuid.expose()).map_err(|e| e.to_string())?;
        transport::check(&options.transport, &options.tls)?;
        Ok(Self(Arc::new(Inner { server, user, transport: options.transport.clone(), tls: options.tls.clone() })))
    }

    /// A stream to the target.
    pub async fn connect(&self, dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
        let mut trace = Trace::start();
        let (stream, head) = self.0.start(dialer, &request.destination, Command::Tcp, &mut trace).await?;
        let answer = Answer::new(Response, Box::new(Clear));
        let mut stream = ChunkedStream::new(stream, Box::new(Clear), Box::new(answer)).with_prefix(head);
        stream
            .write_all(&request.first_payload)
            .await
            .map_err(|e| ConnectError::io(&self.0.server, Phase::Protocol, e))?;
        Ok(Connected { stream: Box::new(stream), trace })
    }

    /// A UDP association: one VLESS stream a target.
    #[expect(clippy::unused_async, reason = "all outbounds associate alike")]
    pub async fn associate(&self, dialer: &Dialer) -> Result<Associated, ConnectError> {
        let (inner, dialer) = (self.0.clone(), dialer.clone());
        let flow = PerTarget::new(Box::new(move |target| {
            let (inner, dialer) = (inner.clone(), dialer.clone());
            Box::pin(async move {
                let mut trace = Trace::start();
                let (stream, head) = inner.start(&dialer, &target, Command::Udp, &mut trace).await?;
                let open = Box::new(DatagramOpen::client());
                let codec = ChunkPackets::new(Box::new(DatagramSeal), open, target);
                Ok(Box::new(StreamDatagrams::new(stream, codec, head, &[])) as BoxDatagramFlow)
            })
        }));
        Ok(Associated { flow: Box::new(flow), trace: Trace::start() })
    }
}

impl Inner {
    async fn start(
        &self,
        dialer: &Dialer,
        target: &Destination,
        command: Command,
        trace: &mut Trace,
    ) -> Result<(BoxStream, Vec<u8>), ConnectError> {
        let stream = transport::connect(dialer, &self.server, &self.transport, &self.tls, trace).await?;
        let mut head = Vec::new();
        put_request(&self.user, "", command, target, &mut head);
        Ok((stream, head))
    }
}
