//! TCP and UDP flows out of IP packets, offload-aware.
//!
//! A [`stack::Stack`] owns one queue of a TUN device and the flows that arrive on it: it is one
//! shard, used by one thread, and locks nothing. Time and randomness come in as arguments.
//! Each TCP flow has a smoltcp interface and socket of its own, so that the cost of a packet does
//! not grow with the number of flows; UDP, ICMP and fragments are handled by parsers of this crate.

pub mod device;
pub mod offload;
pub mod stack;

mod checksum;
mod fragment;
mod icmp;
mod packet;
mod rings;
mod tcp;
mod transmit;
mod udp;
