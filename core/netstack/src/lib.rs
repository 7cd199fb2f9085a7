//! TCP and UDP flows out of IP packets, offload-aware.
