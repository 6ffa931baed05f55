//! Packet formats of in-network aggregation: encode, decode, golden vectors
