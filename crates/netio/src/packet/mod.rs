//! AF_PACKET sockets.
