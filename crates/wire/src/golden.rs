//! Golden vectors: frames on which every implementation of the format must agree.
//!
//! Each vector is a text file in `golden/`: bytes in hexadecimal, with explanatory comments from
//! `#` to the end of the line. There is one vector per packet kind and flag combination, with 32
//! and with 64 values. Names without a protocol belong to ATP. The vectors were written without
//! this crate's encoder, so they check it. The tests of the P4 programs feed the same frames to the
//! P4 parser.

use crate::Epoch;

/// The epoch of all vectors.
pub const EPOCH: Epoch = Epoch::new(0x6a0c_51d7).unwrap();

/// One frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector {
    /// The name of the file, without the suffix.
    pub name: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

impl Vector {
    /// Decodes the bytes of the frame.
    ///
    /// # Panics
    ///
    /// If the text is not pairs of hexadecimal digits. The tests exclude this for [`VECTORS`].
    pub fn bytes(&self) -> Vec<u8> {
        let code = self.text.lines().map(|line| line.split('#').next().unwrap_or(""));
        code.flat_map(str::split_ascii_whitespace)
            .map(|byte| {
                assert_eq!(byte.len(), 2, "{}: {byte:?} is not two digits", self.name);
                u8::from_str_radix(byte, 16)
                    .unwrap_or_else(|_| panic!("{}: {byte:?} is not hexadecimal", self.name))
            })
            .collect()
    }
}

macro_rules! vectors {
    ($($name:literal),* $(,)?) => {
        /// All vectors.
        pub const VECTORS: &[Vector] = &[
            $(Vector {
                name: $name,
                text: include_str!(concat!("../golden/", $name, ".hex")),
            }),*
        ];
    };
}

vectors![
    "gradient_v32",
    "gradient_worker3_v32",
    "gradient_marked_v32",
    "gradient_resend_v32",
    "gradient_collision_v32",
    "gradient_overflow_v32",
    "gradient_resend_overflow_v32",
    "gradient_rack_v32",
    "gradient_partial_v32",
    "gradient_complete_v32",
    "parameter_v32",
    "parameter_collision_ecn_v32",
    "parameter_overflow_v32",
    "reply_v32",
    "reply_collision_overflow_v32",
    "esa_gradient_v32",
    "esa_evicted_v32",
    "esa_parameter_v32",
    "esa_reminder_v32",
    "esa_absent_v32",
    "esa_fetched_v32",
    "p4inc_gradient_v32",
    "p4inc_overflow_v32",
    "p4inc_partial_v32",
    "p4inc_again_v32",
    "p4inc_parameter_v32",
    "p4inc_repeat_v32",
    "p4inc_reply_v32",
    "p4inc_asynchronous_v32",
    "p4inc_forwarded_v32",
    "switchml_gradient_v32",
    "switchml_reply_v32",
    "gradient_v64",
    "gradient_worker3_v64",
    "gradient_marked_v64",
    "gradient_resend_v64",
    "gradient_collision_v64",
    "gradient_overflow_v64",
    "gradient_resend_overflow_v64",
    "gradient_rack_v64",
    "gradient_partial_v64",
    "gradient_complete_v64",
    "parameter_v64",
    "parameter_collision_ecn_v64",
    "parameter_overflow_v64",
    "reply_v64",
    "reply_collision_overflow_v64",
    "esa_gradient_v64",
    "esa_evicted_v64",
    "esa_parameter_v64",
    "esa_reminder_v64",
    "esa_absent_v64",
    "esa_fetched_v64",
    "p4inc_gradient_v64",
    "p4inc_overflow_v64",
    "p4inc_partial_v64",
    "p4inc_again_v64",
    "p4inc_parameter_v64",
    "p4inc_repeat_v64",
    "p4inc_reply_v64",
    "p4inc_asynchronous_v64",
    "p4inc_forwarded_v64",
    "switchml_gradient_v64",
    "switchml_reply_v64",
    "query",
    "query_overflow",
    "query_of_rack",
    "sweep",
    "sweep_done",
    "p4inc_query",
    "p4inc_sweep",
];

/// Returns the vector with this name.
pub fn find(name: &str) -> Option<&'static Vector> {
    VECTORS.iter().find(|vector| vector.name == name)
}
