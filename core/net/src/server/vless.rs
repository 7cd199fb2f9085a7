//! A VLESS server without an encryption of its own.

use std::collections::HashSet;

use bytes::Bytes;
use culvert_wire::vless::{Command, DatagramOpen, DatagramSeal, RESPONSE, take_request};

use super::{Front, ServeError, Upstream, read_front, serve_datagrams, serve_stream};
use crate::chunked::{ChunkedStream, Clear, NoHeader};
use crate::stream::BoxStream;
use crate::stream_datagram::{ChunkPackets, StreamDatagrams};

/// Users.
pub struct Server {
    users: HashSet<[u8; 16]>,
    upstream: Upstream,
}

impl Server {
    /// A server for the users with these identifiers.
    pub fn new(users: &[[u8; 16]], upstream: Upstream) -> Self {
        Self { users: users.iter().copied().collect(), upstream }
    }

    /// Serves one accepted connection to its end.
    pub async fn serve(&self, mut stream: BoxStream) -> Result<(), ServeError> {
        let ((request, consumed), received) = read_front(&mut stream, |input| {
            if let Some(id) = input.get(1..17)
                && !self.users.contains(id)
            {
                return Err(ServeError::Refused("no user of this id".to_owned()));
            }
            match take_request(input) {
                Ok(None) => Ok(Front::NeedMore),
                Ok(Some((request, _))) if !request.flow.is_empty() => {
                    Err(ServeError::Refused(format!("the flow {} is not offered", request.flow)))
                }
                Ok(Some(found)) => Ok(Front::Whole(found)),
                Err(error) => Err(ServeError::Refused(error.to_string())),
            }
        })
        .await?;
        let rest = &received[consumed..];
        match (request.command, request.destination) {
            (Command::Tcp, Some(destination)) => {
                let open = NoHeader::new(Box::new(Clear));
                let client = ChunkedStream::new(stream, Box::new(Clear), Box::new(open))
                    .with_prefix(RESPONSE.to_vec())
                    .with_received(rest);
                serve_stream(&self.upstream, Box::new(client), destination, Bytes::new()).await
            }
            (Command::Udp, Some(destination)) => {
                let open = Box::new(DatagramOpen::server());
                let codec = ChunkPackets::new(Box::new(DatagramSeal), open, destination);
                let client = StreamDatagrams::new(stream, codec, RESPONSE.to_vec(), rest);
                serve_datagrams(&self.upstream, Box::new(client)).await
            }
            (Command::Mux, _) | (_, None) => Err(ServeError::Refused("multiplexing is not offered".to_owned())),
        }
    }
}
