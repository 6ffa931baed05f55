//! Packet formats of in-network aggregation: encode, decode, golden vectors.
//!
//! Every packet is one Ethernet II frame with an IPv4 header without options, a UDP header and the
//! [aggregation header](agg), followed by 32-bit values. Everything is big-endian:
//!
//! ```text
//! Ethernet II (14) | IPv4 (20) | UDP (8) | aggregation (28) | values (4 each)
//! ```
//!
//! - [`agg::Packet`] is a validated view of the bytes of a received frame.
//! - [`agg::Repr`] is the aggregation header in owned form. [`emit_frame`] writes it together with
//!   the lower-layer headers.
//! - [`golden`] holds frames on which every implementation of the format must agree, including the
//!   P4 parser.
//!
//! [`channel`] defines the only format that is not a packet: the messages that ESA sends over TCP
//! between workers, PS and reminder agent.
//!
//! The crate defines the format only. `tributary-protocol` decides which packet is valid when.
//! Apart from the growth of the caller's buffer, nothing here allocates. No accessor panics on any
//! input.
//!
//! Start reading at [`agg`].

mod address;
pub mod agg;
mod audience;
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
mod workers;

pub use address::{Host, Mac};
pub use agg::{Flags, Kind, PORT, Protocol};
pub use audience::Audience;
pub use bitmap::Bitmap;
pub use error::Error;
pub use frame::{Envelope, HEADERS_LEN, VALUES_MAX, emit_frame, frame_len};
pub use id::{
    AggregatorIndex, Epoch, JobId, POSITIONS_MAX, Rack, Run, Sequence, WORKERS_MAX, WorkerIndex,
};
pub use ipv4::Ecn;
pub use round::{FRAGMENTS_MAX, RUNGS, Round};
pub use service::{Segment, Service};
pub use workers::{WorkerSet, name_workers, ranges};
