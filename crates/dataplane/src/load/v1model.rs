//! Compiles the blocks and the metadata of v1model.

use tributary_p4::ir::Program;

use super::slots::Slots;
use super::{Context, Loader};
use crate::code::Code;
use crate::effects::Sharing;
use crate::error::LoadError;
use crate::externs::register::Registers;
use crate::slot::Slot;
use crate::v1model::metadata::{Entries, Intrinsics};

impl Loader<'_> {
    /// Compiles the blocks of a `V1Switch`.
    pub(super) fn v1model_blocks(&mut self) -> Result<Entries, LoadError> {
        let parser = self.parser_block("p")?;
        self.context = Context::Control;
        let verify = self.control("vr")?;
        let ingress = self.control("ig")?;
        let egress = self.control("eg")?;
        let compute = self.control("ck")?;
        self.context = Context::Deparser;
        let deparser = self.control("dep")?;
        Ok(Entries { parser, verify, ingress, egress, compute, deparser })
    }
}

/// Finds the standard metadata.
pub(super) fn intrinsics(program: &Program, slots: &mut Slots) -> Intrinsics {
    let mut item = |name: &str| super::intrinsic(program, slots, name);
    Intrinsics {
        ingress_port: item("ingress_port"),
        egress_spec: item("egress_spec"),
        egress_port: item("egress_port"),
        instance_type: item("instance_type"),
        packet_length: item("packet_length"),
        enq_timestamp: item("enq_timestamp"),
        enq_qdepth: item("enq_qdepth"),
        deq_timedelta: item("deq_timedelta"),
        deq_qdepth: item("deq_qdepth"),
        ingress_global_timestamp: item("ingress_global_timestamp"),
        egress_global_timestamp: item("egress_global_timestamp"),
        mcast_grp: item("mcast_grp"),
        egress_rid: item("egress_rid"),
        checksum_error: item("checksum_error"),
        parser_error: item("parser_error"),
        priority: item("priority"),
        clone: slots.words(1),
        clone_list: slots.words(1),
        resubmit: slots.words(1),
        recirculate: slots.words(1),
        truncate: slots.words(1),
        digest: slots.words(1),
        failed: slots.words(1),
    }
}

/// How the replicas of packets with this many live words can share them, if they can.
pub(super) fn sharing(
    code: &Code,
    registers: &Registers,
    entries: &Entries,
    intrinsics: &Intrinsics,
    live: usize,
) -> Option<Sharing> {
    let then = [entries.compute, entries.deparser];
    let requests: Vec<Slot> =
        intrinsics.requests().into_iter().chain([intrinsics.failed]).collect();
    let different = intrinsics.of_replicas();
    Sharing::of(code, registers, entries.egress, &then, &different, &requests, live)
}
