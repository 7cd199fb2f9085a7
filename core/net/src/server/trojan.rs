//! A Trojan server. Strangers are dropped quietly; a public server would show them a web page.

use bytes::Bytes;
use culvert_wire::trojan::{Command, PasswordHash, take_request};

use super::{Front, ServeError, Upstream, read_front, serve_datagrams, serve_stream};
use crate::prefixed::PrefixedStream;
use crate::stream::BoxStream;
use crate::stream_datagram::{StreamDatagrams, TrojanPackets};

/// Passwords.
pub struct Server {
    users: Vec<PasswordHash>,
    upstream: Upstream,
}

impl Server {
    /// A server for users with these passwords.
    pub fn new(passwords: &[&str], upstream: Upstream) -> Self {
        Self { users: passwords.iter().map(|password| PasswordHash::new(password)).collect(), upstream }
    }

    /// Serves one accepted connection (its TLS already taken off) to its end.
    pub async fn serve(&self, mut stream: BoxStream) -> Result<(), ServeError> {
        let (request, received) = read_front(&mut stream, |input| match take_request(&self.users, input) {
            Ok(None) => Ok(Front::NeedMore),
            Ok(Some(request)) => Ok(Front::Whole(request)),
            Err(error) => Err(ServeError::Refused(error.to_string())),
        })
        .await?;
        let rest = Bytes::from(received).split_off(request.consumed);
        match request.command {
            Command::Connect => {
                let client = PrefixedStream::new(rest, stream);
                serve_stream(&self.upstream, Box::new(client), request.destination, Bytes::new()).await
            }
            Command::Associate => {
                let client = StreamDatagrams::new(stream, TrojanPackets, Vec::new(), &rest);
                serve_datagrams(&self.upstream, Box::new(client)).await
            }
        }
    }
}
