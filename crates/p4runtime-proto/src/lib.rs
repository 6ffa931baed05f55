//! Generated types of the P4Runtime and P4Info interfaces
