//! Inbounds, outbounds, transports, resolver and relay.

pub mod datagram;
pub mod outbound;
pub mod stream;
