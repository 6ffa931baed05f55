//! Packets and channel messages: golden bytes and properties. `crates/fuzz` has their fuzz targets.

mod channel_golden;
mod channel_properties;
mod golden;
mod properties;
