//! Inbounds, outbounds, transports, resolver and relay.

pub mod buffer;
pub mod chunked;
pub mod clock;
pub mod datagram;
pub mod dial;
pub mod inbound;
pub mod outbound;
pub mod prefixed;
pub mod random;
pub mod reality_server;
pub mod relay;
pub mod resolver;
pub mod server;
pub mod stream;
pub mod stream_datagram;
pub mod transport;
