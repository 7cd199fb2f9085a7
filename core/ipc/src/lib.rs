//! Methods, events, errors, client and server of the local socket.
