//! Compiles the blocks and the metadata of PSA.

use tributary_p4::ir::{FieldId, Program};

use super::Loader;
use super::slots::Slots;
use crate::error::LoadError;
use crate::pass::Entries;
use crate::psa::metadata::{Bridge, Bridges, ControlInput, Intrinsics, Output, ParserInput};
use crate::slot::Item;

impl Loader<'_> {
    /// Compiles the blocks of a `PSA_Switch`.
    pub(super) fn psa_blocks(&mut self) -> Result<Entries, LoadError> {
        self.two_pipelines(["ip", "ig", "id", "ep", "eg", "ed"])
    }

    /// The metadata that travels from deparsers to parsers.
    pub(super) fn psa_bridges(&self) -> Bridges {
        let items = |fields: &[FieldId]| -> Vec<Item> {
            fields.iter().map(|&field| self.item(field)).collect()
        };
        let bridge = |name: &str| {
            let declared = self.program.bridges.iter().find(|bridge| bridge.name == name);
            declared.map_or_else(Bridge::default, |bridge| Bridge {
                from: items(&bridge.from),
                to: items(&bridge.to),
            })
        };
        Bridges {
            normal: bridge("normal_meta"),
            clone_i2e: bridge("clone_i2e_meta"),
            clone_e2e: bridge("clone_e2e_meta"),
            resubmit: bridge("resubmit_meta"),
            recirculate: bridge("recirculate_meta"),
        }
    }
}

/// Finds the architecture's metadata.
pub(super) fn intrinsics(program: &Program, slots: &mut Slots) -> Intrinsics {
    let mut item = |of: &str, name: &str| super::intrinsic(program, slots, &format!("{of}.{name}"));
    let mut parser =
        |of: &str, port: &str| ParserInput { port: item(of, port), path: item(of, "packet_path") };
    let ingress_parser = parser("ingress_parser_input", "ingress_port");
    let egress_parser = parser("egress_parser_input", "egress_port");
    let mut control = |of: &str, port: &str, timestamp: &str| ControlInput {
        port: item(of, port),
        path: item(of, "packet_path"),
        timestamp: item(of, timestamp),
        parser_error: item(of, "parser_error"),
    };
    let ingress = control("ingress_input", "ingress_port", "ingress_timestamp");
    let egress = control("egress_input", "egress_port", "egress_timestamp");
    let mut output = |of: &str| Output {
        clone: item(of, "clone"),
        clone_session: item(of, "clone_session_id"),
        drop: item(of, "drop"),
    };
    Intrinsics {
        ingress_parser,
        ingress,
        ingress_output: output("ingress_output"),
        egress_output: output("egress_output"),
        class_of_service: item("ingress_output", "class_of_service"),
        resubmit: item("ingress_output", "resubmit"),
        multicast_group: item("ingress_output", "multicast_group"),
        egress_port: item("ingress_output", "egress_port"),
        egress_parser,
        egress,
        egress_class: item("egress_input", "class_of_service"),
        egress_instance: item("egress_input", "instance"),
        deparser_port: item("egress_deparser_input", "egress_port"),
        failed: slots.words(1),
    }
}
