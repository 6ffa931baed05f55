//! Parameter-server runtime
