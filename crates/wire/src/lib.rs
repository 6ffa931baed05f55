//! Packet formats of in-network aggregation: encode, decode, golden vectors.
//!
//! Every packet is one Ethernet II frame with an IPv4 header without options, a UDP header and the
//! [aggregation header](agg), followed by 32-bit values; everything is big-endian:
//!
//! ```text
//! Ethernet II (14) | IPv4 (20) | UDP (8) | aggregation (28) | values (4 each)
//! ```
//!
//! - [`agg::Packet`] is a checked view over the bytes of a whole frame, for receiving;
//! - [`agg::Repr`] is the aggregation header in owned form, and [`emit_frame`] writes it with the
//!   headers around it, for sending;
//! - [`golden`] holds frames that every implementation of the format must agree on, the P4 parser
//!   included.
//!
//! [`channel`] is the one format that is not a packet: the messages between workers, PS and reminder
//! agent that ESA sends over TCP.
//!
//! The crate knows the format and nothing of the protocols that use it: which packet is right at
//! which time is the business of `tributary-protocol`. Nothing here allocates but the growth of the
//! buffer that the caller hands in, and no accessor panics, whatever the bytes are.
//!
//! Start reading at [`agg`].

mod address;
pub mod agg;
mod bitmap;
pub mod channel;
mod error;
pub mod ethernet;
mod frame;
pub mod golden;
mod id;
pub mod ipv4;
mod round;
mod service;
pub mod udp;
pub mod values;

pub use address::{Host, Mac};
pub use agg::{Flags, Kind, Protocol};
pub use bitmap::Bitmap;
pub use error::Error;
pub use frame::{Envelope, HEADERS_LEN, VALUES_MAX, emit_frame, frame_len};
pub use id::{AggregatorIndex, Epoch, JobId, Run, Sequence, WORKERS_MAX, WorkerIndex};
pub use ipv4::Ecn;
pub use round::{FRAGMENTS_MAX, RUNGS, Round};
pub use service::{Segment, Service};
pub use udp::PORT;
