//! Through a VLESS server, without an encryption of its own: plainly, or with the flow Vision.

use std::sync::Arc;

use culvert_profile::node;
use culvert_profile::node::{Tls, Transport};
use culvert_wire::Destination;
use culvert_wire::user_id::parse_user_id;
use culvert_wire::vless::{Command, DatagramOpen, DatagramSeal, Response, put_request};
use tokio::io::AsyncWriteExt;

use super::per_target::PerTarget;
use super::vision::{self, Flow};
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
    flow: Option<Flow>,
}

impl Vless {
    /// The outbound of these options, or why they can't be used.
    pub fn new(server: Destination, options: &node::Vless) -> Result<Self, String> {
        if !matches!(options.encryption.as_str(), "" | "none") {
            return Err("VLESS encryption is not supported yet".to_owned());
        }
        let flow = Flow::parse(options.flow.as_deref())?;
        let user = parse_user_id(options.user.uuid.expose()).map_err(|e| e.to_string())?;
        transport::check(&options.transport, &options.tls)?;
        if flow.is_some() {
            vision::check(&options.tls)?;
            if !matches!(options.transport, Transport::Tcp { .. }) {
                return Err("the flow xtls-rprx-vision needs the transport TCP".to_owned());
            }
        }
        Ok(Self(Arc::new(Inner { server, user, transport: options.transport.clone(), tls: options.tls.clone(), flow })))
    }

    /// A stream to the target.
    pub async fn connect(&self, dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
        let mut trace = Trace::start();
        if self.0.flow.is_some() {
            let stream = self.0.start_vision(dialer, &request, &mut trace).await?;
            return Ok(Connected { stream: Box::new(stream), trace });
        }
        let (stream, head) = self.0.start(dialer, &request.destination, Command::Tcp, &mut trace).await?;
        let answer = Answer::new(Response, Box::new(Clear));
        let mut stream = ChunkedStream::new(stream, Box::new(Clear), Box::new(answer)).with_prefix(head);
        stream
            .write_all(&request.first_payload)
            .await
            .map_err(|e| ConnectError::io(&self.0.server, Phase::Protocol, e))?;
        Ok(Connected { stream: Box::new(stream), trace })
    }

    /// A UDP association: one VLESS stream a target. Not with Vision, in which servers take UDP only
    /// as XUDP.
    #[expect(clippy::unused_async, reason = "all outbounds associate alike")]
    pub async fn associate(&self, dialer: &Dialer) -> Result<Associated, ConnectError> {
        if self.0.flow.is_some() {
            return Err(ConnectError::NotOffered(
                "UDP is not carried through a VLESS server with the flow xtls-rprx-vision yet".to_owned(),
            ));
        }
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

    async fn start_vision(
        &self,
        dialer: &Dialer,
        request: &ConnectRequest,
        trace: &mut Trace,
    ) -> Result<ChunkedStream<BoxStream>, ConnectError> {
        let socket = dialer.connect(&self.server, trace).await?;
        let name = transport::server_name(&self.server, &self.transport, &self.tls);
        let mut head = Vec::new();
        put_request(&self.user, vision::FLOW, Command::Tcp, &request.destination, &mut head);
        let opening = (self.user, head, &*request.first_payload);
        vision::over(dialer, Box::new(socket), &self.server, &name, &self.tls, opening, trace).await
    }
}
