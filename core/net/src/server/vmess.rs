//! A VMess server.

use bytes::Bytes;
use culvert_wire::vmess;
use parking_lot::Mutex;

use super::{Front, ServeError, Upstream, read_front, serve_datagrams, serve_stream};
use crate::chunked::{ChunkedStream, Clear, NoHeader};
use crate::clock::unix_seconds;
use crate::stream::BoxStream;
use crate::stream_datagram::{ChunkPackets, StreamDatagrams};

/// Users, and what they asked lately.
pub struct Server {
    requests: Mutex<vmess::Server>,
    upstream: Upstream,
}

impl Server {
    /// A server for the users with these identifiers.
    pub fn new(users: &[[u8; 16]], upstream: Upstream) -> Self {
        Self { requests: Mutex::new(vmess::Server::new(users)), upstream }
    }

    /// Serves one accepted connection to its end.
    pub async fn serve(&self, mut stream: BoxStream) -> Result<(), ServeError> {
        let (accepted, received) =
            read_front(&mut stream, |input| match self.requests.lock().read(input, unix_seconds()) {
                Ok(vmess::Step::NeedMore(_)) => Ok(Front::NeedMore),
                Ok(vmess::Step::Request(accepted)) => Ok(Front::Whole(accepted)),
                Err(error) => Err(ServeError::Refused(error.to_string())),
            })
            .await?;
        let session = &accepted.session;
        let rest = &received[accepted.consumed..];
        let mut head = Vec::new();
        session.response_head(&mut head);
        match (accepted.command, accepted.destination.clone()) {
            (vmess::Command::Tcp, Some(destination)) => {
                let client = if session.is_raw() {
                    ChunkedStream::new(stream, Box::new(Clear), Box::new(NoHeader::new(Box::new(Clear))))
                } else {
                    let open = NoHeader::new(Box::new(session.request_open()));
                    ChunkedStream::new(stream, Box::new(session.response_seal()), Box::new(open))
                };
                let client = client.with_prefix(head).with_received(rest);
                serve_stream(&self.upstream, Box::new(client), destination, Bytes::new()).await
            }
            (vmess::Command::Udp, Some(destination)) => {
                let codec =
                    ChunkPackets::new(Box::new(session.response_seal()), Box::new(session.request_open()), destination);
                let client = StreamDatagrams::new(stream, codec, head, rest);
                serve_datagrams(&self.upstream, Box::new(client)).await
            }
            (vmess::Command::Mux, _) | (_, None) => Err(ServeError::Refused("multiplexing is not offered".to_owned())),
        }
    }
}
