//! Through a VMess server.

use std::sync::Arc;

use culvert_profile::node;
use culvert_profile::node::{Tls, Transport};
use culvert_wire::Destination;
use culvert_wire::user_id::parse_user_id;
use culvert_wire::vmess::{Command, Protection, Session, UserKey};
use tokio::io::AsyncWriteExt;

use super::per_target::PerTarget;
use super::{Associated, ConnectError, ConnectRequest, Connected, Phase, Trace};
use crate::chunked::{Answer, ChunkedStream, Clear, NoHeader};
use crate::clock::unix_seconds;
use crate::datagram::BoxDatagramFlow;
use crate::dial::Dialer;
use crate::random::SystemRandom;
use crate::stream::BoxStream;
use crate::stream_datagram::{ChunkPackets, StreamDatagrams};
use crate::transport;

/// A VMess server and our account there.
#[derive(Clone)]
pub struct Vmess(Arc<Inner>);

struct Inner {
    server: Destination,
    user: UserKey,
    protection: Protection,
    transport: Transport,
    tls: Tls,
}

impl Vmess {
    /// The outbound of these options, or why they can't be used.
    pub fn new(server: Destination, options: &node::Vmess) -> Result<Self, String> {
        if options.alter_id > 0 {
            return Err("alterId above 0 (the legacy VMess header) is not supported".to_owned());
        }
        let id = parse_user_id(options.user.uuid.expose()).map_err(|e| e.to_string())?;
        let protection = Protection::parse(&options.encryption, has_hardware_aes())
            .ok_or_else(|| format!("unknown VMess security {}", options.encryption))?;
        transport::check(&options.transport, &options.tls)?;
        Ok(Self(Arc::new(Inner {
            server,
            user: UserKey::new(&id),
            protection,
            transport: options.transport.clone(),
            tls: options.tls.clone(),
        })))
    }

    /// A stream to the target.
    pub async fn connect(&self, dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
        let mut trace = Trace::start();
        let (stream, session, head) = self.0.start(dialer, &request.destination, Command::Tcp, &mut trace).await?;
        let mut stream = over(stream, &session).with_prefix(head);
        stream
            .write_all(&request.first_payload)
            .await
            .map_err(|e| ConnectError::io(&self.0.server, Phase::Protocol, e))?;
        Ok(Connected { stream: Box::new(stream), trace })
    }

    /// A UDP association: one VMess stream a target.
    #[expect(clippy::unused_async, reason = "all outbounds associate alike")]
    pub async fn associate(&self, dialer: &Dialer) -> Result<Associated, ConnectError> {
        let (inner, dialer) = (self.0.clone(), dialer.clone());
        let flow = PerTarget::new(Box::new(move |target| {
            let (inner, dialer) = (inner.clone(), dialer.clone());
            Box::pin(async move {
                let mut trace = Trace::start();
                let (stream, session, head) = inner.start(&dialer, &target, Command::Udp, &mut trace).await?;
                let codec =
                    ChunkPackets::new(Box::new(session.request_seal()), Box::new(session.response_open()), target);
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
    ) -> Result<(BoxStream, Session, Vec<u8>), ConnectError> {
        let stream = transport::connect(dialer, &self.server, &self.transport, &self.tls, trace).await?;
        let (security, options) = self.protection.options(command);
        let session = Session::new(&mut SystemRandom, security, options, command);
        let mut head = Vec::new();
        self.user.seal_request(&session, target, unix_seconds(), &mut SystemRandom, &mut head);
        Ok((stream, session, head))
    }
}

fn over(stream: BoxStream, session: &Session) -> ChunkedStream<BoxStream> {
    if session.is_raw() {
        let answer = Answer::new(session.response_preamble(), Box::new(Clear));
        return ChunkedStream::new(stream, Box::new(Clear), Box::new(answer));
    }
    let answer = NoHeader::new(Box::new(session.response_open()));
    ChunkedStream::new(stream, Box::new(session.request_seal()), Box::new(answer))
}

/// Whether AES costs less than ChaCha20 here.
fn has_hardware_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}
