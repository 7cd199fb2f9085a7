//! Through an HTTP proxy, by CONNECT.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_profile::node;
use culvert_wire::Destination;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{ConnectError, ConnectRequest, Connected, Phase, Trace};
use crate::dial::Dialer;
use crate::prefixed::PrefixedStream;
use crate::stream::BoxStream;
use crate::transport;

/// The most bytes of the proxy's answer.
const HEAD_LIMIT: usize = 16 << 10;

/// An HTTP proxy.
pub struct Http {
    server: Destination,
    tls: node::Tls,
    authorization: Option<String>,
}

impl Http {
    /// The proxy at `server`.
    pub fn new(server: Destination, options: &node::Http) -> Result<Self, String> {
        transport::check(&node::Transport::default(), &options.tls)?;
        let user = options.username.as_deref().unwrap_or_default();
        let password = options.password.as_ref().map_or("", |p| p.expose());
        let authorization = (options.username.is_some() || options.password.is_some())
            .then(|| STANDARD.encode(format!("{user}:{password}")));
        Ok(Self { server, tls: options.tls.clone(), authorization })
    }

    /// A tunnel to the target.
    pub async fn connect(&self, dialer: &Dialer, request: ConnectRequest) -> Result<Connected, ConnectError> {
        let mut trace = Trace::start();
        let transport = node::Transport::default();
        let stream = transport::connect(dialer, &self.server, &transport, &self.tls, &mut trace).await?;
        let tunnel = self.tunnel(stream, &request);
        let stream = dialer.phase(&self.server, Phase::Protocol, &mut trace, tunnel).await?;
        Ok(Connected { stream, trace })
    }

    async fn tunnel(&self, mut stream: BoxStream, request: &ConnectRequest) -> Result<BoxStream, ConnectError> {
        let target = &request.destination;
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(authorization) = &self.authorization {
            head.push_str(&format!("Proxy-Authorization: Basic {authorization}\r\n"));
        }
        head.push_str("\r\n");
        let failed = |e| ConnectError::io(&self.server, Phase::Protocol, e);
        stream.write_all(head.as_bytes()).await.map_err(failed)?;
        stream.flush().await.map_err(failed)?;
        let mut answer = Vec::with_capacity(512);
        let (status, length) = loop {
            if stream.read_buf(&mut answer).await.map_err(failed)? == 0 {
                return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
            }
            let mut headers = [httparse::EMPTY_HEADER; 100];
            let mut response = httparse::Response::new(&mut headers);
            match response.parse(&answer) {
                Ok(httparse::Status::Complete(length)) => {
                    break (response.code.unwrap_or(0), length);
                }
                Ok(httparse::Status::Partial) if answer.len() < HEAD_LIMIT => {}
                Ok(httparse::Status::Partial) | Err(_) => {
                    return Err(
                        self.handshake("the answer is no HTTP".to_owned(), "is this the port of an HTTP proxy?")
                    );
                }
            }
        };
        match status {
            200..=299 => {}
            407 => {
                return Err(self.handshake("HTTP 407".to_owned(), "the proxy wants another user name or password"));
            }
            code => {
                return Err(ConnectError::Target { destination: target.to_string(), reason: format!("HTTP {code}") });
            }
        }
        if !request.first_payload.is_empty() {
            stream.write_all(&request.first_payload).await.map_err(failed)?;
            stream.flush().await.map_err(failed)?;
        }
        let early = answer.split_off(length);
        Ok(if early.is_empty() { stream } else { Box::new(PrefixedStream::new(early.into(), stream)) })
    }

    fn handshake(&self, problem: String, hint: &'static str) -> ConnectError {
        ConnectError::Handshake { server: self.server.to_string(), phase: Phase::Protocol, problem, hint }
    }
}
