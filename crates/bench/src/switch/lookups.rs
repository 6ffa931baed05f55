//! Tables of each match kind with few entries and with many: time per packet, less that with an
//! empty table.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, anyhow};
use serde::Serialize;
use tributary_dataplane::{
    ActionCall, EngineKind, IngressInput, KeyMatch, Pipeline, TableEntry, Value,
};
use tributary_p4::ir::TableId;

use super::super::{Spread, processor_time};
use crate::Args;
use tributary_job::report::table;

const SIZES: [u32; 2] = [10, 100_000];
const KINDS: [&str; 5] = ["exact", "lpm", "ternary", "optional", "range"];
const PACKETS: u32 = 200_000;
/// Packets for tables whose entries are tested one by one.
const FEW_PACKETS: u32 = 300;

/// A match kind with a number of entries.
#[derive(Serialize)]
pub(super) struct Lookup {
    kind: &'static str,
    entries: u32,
    /// Nanoseconds per lookup.
    nanoseconds: Spread,
    /// Milliseconds to insert all entries.
    insertion: f64,
}

pub(super) fn times(args: &Args) -> Result<Vec<Lookup>> {
    let mut all = Vec::new();
    for kind in KINDS {
        let mut empty = program(kind)?;
        for entries in SIZES {
            let mut pipeline = program(kind)?;
            let begun = Instant::now();
            for number in 0..entries {
                pipeline.insert(TableId(0), entry(kind, number))?;
            }
            let insertion = begun.elapsed().as_secs_f64() * 1e3;
            let slow = kind == "range" && entries > 1000;
            let packets = if slow { FEW_PACKETS } else { PACKETS };
            let spread =
                |_| measure(&mut pipeline, packets, entries) - measure(&mut empty, PACKETS, 1);
            let nanoseconds = Spread::of((0..args.repeat).map(spread).collect());
            all.push(Lookup { kind, entries, nanoseconds, insertion });
        }
    }
    Ok(all)
}

pub(super) fn rows(all: &[Lookup]) -> comfy_table::Table {
    let mut rows = table(&["match kind", "entries", "look-up, ns", "all insertions, ms"]);
    for lookup in all {
        rows.add_row([
            lookup.kind.to_owned(),
            lookup.entries.to_string(),
            lookup.nanoseconds.text(0),
            format!("{:.1}", lookup.insertion),
        ]);
    }
    rows
}

/// A program that looks up 32 bits.
fn program(kind: &str) -> Result<Pipeline> {
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
         header key_t {{ bit<32> key; }}\nstruct headers_t {{ key_t key; }}\nstruct none_t {{}}\n\
         parser P(packet_in p, out headers_t h, inout none_t m, inout standard_metadata_t s) {{\n\
             state start {{ p.extract(h.key); transition accept; }}\n}}\n\
         control V(inout headers_t h, inout none_t m) {{ apply {{}} }}\n\
         control I(inout headers_t h, inout none_t m, inout standard_metadata_t s) {{\n\
             action to(bit<9> port) {{ s.egress_spec = port; }}\n\
             table t {{ key = {{ h.key.key: {kind}; }} actions = {{ to; NoAction; }}\n\
                 default_action = NoAction(); size = 131072; }}\n\
             apply {{ t.apply(); }}\n}}\n\
         control E(inout headers_t h, inout none_t m, inout standard_metadata_t s) {{ apply {{}} }}\n\
         control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h.key); }} }}\n\
         V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    );
    let compiled = tributary_p4::compile_text("lookup.p4", &text, &[])
        .map_err(|errors| anyhow!("the program has errors: {errors}"))?;
    let mut pipeline = Pipeline::load(compiled.program)?;
    pipeline.use_engine(EngineKind::Compiled);
    Ok(pipeline)
}

/// Number of lengths: prefixes and masks have from 17 to 32 bits, as most routes of the Internet.
const LENGTHS: u32 = 16;
const SHORTEST: u32 = 32 - LENGTHS + 1;

/// The match of entry `number`. Its first bits are unique among those of its length.
const fn key(number: u32) -> u32 {
    let first = (number / LENGTHS).wrapping_mul(40_503) << (32 - SHORTEST);
    first | number.wrapping_mul(0x9e37_79b1) >> SHORTEST
}

fn entry(kind: &str, number: u32) -> TableEntry {
    let value = |key: u32| Value::from(u64::from(key));
    let length = SHORTEST + number % LENGTHS;
    let mask = u32::MAX << (32 - length);
    let key = key(number);
    let (found, priority) = match kind {
        "exact" => (KeyMatch::Exact(value(key)), 0),
        "lpm" => (KeyMatch::Lpm { value: value(key & mask), prefix_len: length }, 0),
        "ternary" => {
            (KeyMatch::Ternary { value: value(key & mask), mask: value(mask) }, number as i32 + 1)
        }
        "optional" => (KeyMatch::Optional(Some(value(key))), 1),
        _ => {
            let low = number * 40_000;
            (KeyMatch::Range { low: value(low), high: value(low + 39_999) }, 1)
        }
    };
    let call = ActionCall { action: 0, args: vec![Value::from(1u64)] };
    TableEntry::new(vec![found], priority, call)
}

/// Nanoseconds per packet; the keys are those of all entries in turn.
fn measure(pipeline: &mut Pipeline, packets: u32, entries: u32) -> f64 {
    let mut packet = pipeline.new_packet();
    let begun = processor_time();
    for number in 0..packets {
        let frame = key(number.wrapping_mul(7919) % entries).to_be_bytes();
        black_box(pipeline.ingress(&mut packet, &frame, &IngressInput::default()));
    }
    (processor_time() - begun).as_secs_f64() * 1e9 / f64::from(packets)
}
