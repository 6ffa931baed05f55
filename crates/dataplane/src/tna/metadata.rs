//! What the passes of TNA know about a program: the slots of intrinsic metadata.

use crate::slot::{Item, Slot};

/// Slots that the engine itself writes or reads. Metadata that no block of the program takes has an
/// unused slot.
#[derive(Clone, Debug)]
pub(crate) struct Intrinsics {
    pub(crate) ingress: Gress,
    pub(crate) ucast_egress_port: Item,
    pub(crate) mcast_grp_a: Item,
    pub(crate) mcast_grp_b: Item,
    pub(crate) bypass_egress: Item,
    pub(crate) copy_to_cpu: Item,
    pub(crate) deflect_on_drop: Item,
    pub(crate) rid: Item,
    pub(crate) level2_exclusion_id: Item,
    /// Whether the ingress deparser requested another pass.
    pub(crate) resubmit: Slot,
    /// The eight bytes of that request, the first one highest.
    pub(crate) resubmit_data: Slot,
    pub(crate) egress: Gress,
}

/// Metadata of both ingress and egress.
#[derive(Clone, Debug)]
pub(crate) struct Gress {
    pub(crate) global_tstamp: Item,
    pub(crate) parser_err: Item,
    pub(crate) drop_ctl: Item,
}
