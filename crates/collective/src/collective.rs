//! What ranks do beside sums that all get.

use tributary_protocol::buffer::Buffer;

use crate::Values;

/// A collective.
#[derive(Debug)]
pub struct Collective {
    /// What the ranks compare before: the operation, the number of its elements, and their type.
    pub claim: (String, u64, String),
    /// What is done.
    pub what: What,
}

/// What is done in a collective.
#[derive(Debug)]
pub enum What {
    /// All ranks get what each has, in their order.
    AllGather {
        /// What this rank has. `None` if it is in its place already.
        own: Option<Buffer<u8>>,
        /// Where all of it goes.
        all: Buffer<u8>,
    },
    /// All ranks get what one has.
    Broadcast {
        /// What that one has, and where it goes at the others.
        bytes: Buffer<u8>,
        /// That one.
        root: usize,
    },
    /// Values are summed, and each rank gets as large a part of the sums as any other.
    ReduceScatter {
        /// This rank's values.
        values: Values,
        /// Where its part of the sums goes.
        own: Values,
        /// Whether the sums are divided by the number of ranks.
        average: bool,
    },
    /// Numbers are summed in place, each in its own type and in the order of the ranks.
    Sum(Numbers),
}

/// Numbers that are summed in their own type. Sums of integers wrap around.
#[derive(Debug)]
pub enum Numbers {
    /// In double precision.
    F64(Buffer<f64>),
    /// Integers of 64 bits.
    I64(Buffer<i64>),
    /// Integers of 32 bits.
    I32(Buffer<i32>),
}
