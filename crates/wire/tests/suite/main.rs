//! Packets and channel messages: golden bytes, properties and fuzzing.

mod channel_golden;
mod channel_properties;
mod fuzz_channel;
mod fuzz_packet;
mod golden;
mod properties;
