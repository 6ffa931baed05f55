//! Ethernet frames in and out: AF_PACKET and in-memory links, with fault injection
