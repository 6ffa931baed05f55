//! What the passes of PSA know about a program: the slots of the architecture's metadata.

use crate::slot::{Item, Slot};

/// Slots that the engine itself writes or reads.
#[derive(Clone, Debug)]
pub(crate) struct Intrinsics {
    pub(crate) ingress_parser: ParserInput,
    pub(crate) ingress: ControlInput,
    /// `psa_ingress_output_metadata_t`.
    pub(crate) class_of_service: Item,
    pub(crate) ingress_output: Output,
    pub(crate) resubmit: Item,
    pub(crate) multicast_group: Item,
    pub(crate) egress_port: Item,
    pub(crate) egress_parser: ParserInput,
    pub(crate) egress: ControlInput,
    pub(crate) egress_class: Item,
    pub(crate) egress_instance: Item,
    pub(crate) egress_output: Output,
    /// `psa_egress_deparser_input_metadata_t.egress_port`.
    pub(crate) deparser_port: Item,
    /// An assertion failed.
    pub(crate) failed: Slot,
}

/// `psa_ingress_parser_input_metadata_t`, or that of egress.
#[derive(Clone, Debug)]
pub(crate) struct ParserInput {
    pub(crate) port: Item,
    pub(crate) path: Item,
}

/// What `psa_ingress_input_metadata_t` and that of egress have in common.
#[derive(Clone, Debug)]
pub(crate) struct ControlInput {
    pub(crate) port: Item,
    pub(crate) path: Item,
    pub(crate) timestamp: Item,
    pub(crate) parser_error: Item,
}

/// What `psa_ingress_output_metadata_t` and that of egress have in common.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) clone: Item,
    pub(crate) clone_session: Item,
    pub(crate) drop: Item,
}

/// A deparser's metadata, and where the next parser finds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bridge {
    pub(crate) from: Vec<Item>,
    pub(crate) to: Vec<Item>,
}

/// All metadata that travels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bridges {
    pub(crate) normal: Bridge,
    pub(crate) clone_i2e: Bridge,
    pub(crate) clone_e2e: Bridge,
    pub(crate) resubmit: Bridge,
    pub(crate) recirculate: Bridge,
}
