//! Tables of each match kind with few entries and with many: time per packet, less that with an
//! empty table.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use serde::Serialize;
use tributary_dataplane::{
    ActionCall, EngineKind, IngressInput, KeyMatch, Pipeline, TableEntry, Value,
};
use tributary_p4::ir::TableId;

use super::super::{Spread, processor_time};
use crate::bench::Args;
use tributary_run::report::table;

const PACKETS: u32 = 200_000;

/// A table of the measurement.
struct Shape {
    name: &'static str,
    /// Widths, in whole bytes, and match kinds.
    keys: &'static [(u32, &'static str)],
    /// Numbers of entries.
    sizes: [u32; 2],
    /// Entry `number` of `count`.
    entry: fn(number: u32, count: u32) -> Made,
}

/// An entry's matches, its priority, and keys that it matches.
type Made = (Vec<KeyMatch>, u32, Vec<u32>);

const SHAPES: [Shape; 9] = [
    Shape { name: "exact", keys: &[(32, "exact")], sizes: SIZES, entry: exact },
    Shape { name: "lpm", keys: &[(32, "lpm")], sizes: SIZES, entry: lpm },
    Shape { name: "ternary, 16 masks", keys: &[(32, "ternary")], sizes: SIZES, entry: ternary },
    Shape { name: "ternary, any masks", keys: &[(32, "ternary")], sizes: FEWER, entry: any_mask },
    Shape { name: "optional", keys: &[(32, "optional")], sizes: SIZES, entry: optional },
    Shape { name: "range, apart", keys: &[(32, "range")], sizes: SIZES, entry: apart },
    Shape { name: "range, nested", keys: &[(32, "range")], sizes: SIZES, entry: nested },
    Shape { name: "access list", keys: &ACCESS_LIST, sizes: FEWER, entry: access },
    Shape { name: "access list of masks", keys: &ACCESS_MASKS, sizes: FEWER, entry: access_masks },
];
const SIZES: [u32; 2] = [10, 100_000];
const FEWER: [u32; 2] = [10, 10_000];
/// Addresses, protocol, ports.
const ACCESS_LIST: [(u32, &str); 5] =
    [(32, "ternary"), (32, "ternary"), (8, "ternary"), (16, "range"), (16, "range")];

const ACCESS_MASKS: [(u32, &str); 5] =
    [(32, "ternary"), (32, "ternary"), (8, "ternary"), (16, "ternary"), (16, "ternary")];

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
    for shape in &SHAPES {
        let mut empty = program(shape)?;
        for entries in shape.sizes {
            let mut pipeline = program(shape)?;
            let made = || (0..entries).map(|number| (shape.entry)(number, entries));
            let frames: Vec<_> = made().map(|(_, _, keys)| frame(shape, &keys)).collect();
            let begun = Instant::now();
            for (matches, priority, _) in made() {
                let call = ActionCall { action: 0, args: vec![Value::from(1u64)] };
                let entry = TableEntry::new(matches, priority as i32, call);
                pipeline.insert(TableId(0), entry)?;
            }
            // Some entries take their place when the first packet comes.
            let mut packet = pipeline.new_packet();
            pipeline.ingress(&mut packet, &frames[0], &IngressInput::default());
            let insertion = begun.elapsed().as_secs_f64() * 1e3;
            if let Some(folder) = &args.rules {
                write_rules(folder, shape, entries, made())?;
            }
            let spread = |_| measure(&mut pipeline, &frames) - measure(&mut empty, &frames);
            let nanoseconds = Spread::of((0..args.repeat).map(spread).collect());
            all.push(Lookup { kind: shape.name, entries, nanoseconds, insertion });
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

/// A program that looks its keys up.
fn program(shape: &Shape) -> Result<Pipeline> {
    let each = |text: &dyn Fn(usize, u32, &str) -> String| -> String {
        (shape.keys.iter().enumerate()).map(|(at, (width, kind))| text(at, *width, kind)).collect()
    };
    let fields = each(&|at, width, _| format!("bit<{width}> k{at}; "));
    let keys = each(&|at, _, kind| format!("h.key.k{at}: {kind}; "));
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
         header key_t {{ {fields}}}\nstruct headers_t {{ key_t key; }}\nstruct none_t {{}}\n\
         parser P(packet_in p, out headers_t h, inout none_t m, inout standard_metadata_t s) {{\n\
             state start {{ p.extract(h.key); transition accept; }}\n}}\n\
         control V(inout headers_t h, inout none_t m) {{ apply {{}} }}\n\
         control I(inout headers_t h, inout none_t m, inout standard_metadata_t s) {{\n\
             action to(bit<9> port) {{ s.egress_spec = port; }}\n\
             table t {{ key = {{ {keys}}} actions = {{ to; NoAction; }}\n\
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

/// A value that follows from the number, and looks like any.
const fn any(number: u32, salt: u32) -> u32 {
    let mixed = (number ^ salt.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0x9e37_79b1);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 13
}

fn value(number: u32) -> Value {
    Value::from(u64::from(number))
}

fn masked(key: u32, mask: u32) -> KeyMatch {
    KeyMatch::Ternary { value: value(key & mask), mask: value(mask) }
}

/// The length of entry `number`'s prefix.
const fn length(number: u32) -> u32 {
    SHORTEST + number % LENGTHS
}

fn exact(number: u32, _: u32) -> Made {
    (vec![KeyMatch::Exact(value(key(number)))], 0, vec![key(number)])
}

fn lpm(number: u32, _: u32) -> Made {
    let (key, prefix_len) = (key(number), length(number));
    let value = value(key & u32::MAX << (32 - prefix_len));
    (vec![KeyMatch::Lpm { value, prefix_len }], 0, vec![key])
}

fn ternary(number: u32, _: u32) -> Made {
    let key = key(number);
    (vec![masked(key, u32::MAX << (32 - length(number)))], number + 1, vec![key])
}

fn any_mask(number: u32, _: u32) -> Made {
    let key = any(number, 0);
    // Three of four bits, on average.
    (vec![masked(key, any(number, 1) | any(number, 2))], number + 1, vec![key])
}

fn optional(number: u32, _: u32) -> Made {
    (vec![KeyMatch::Optional(Some(value(key(number))))], 1, vec![key(number)])
}

fn apart(number: u32, _: u32) -> Made {
    let low = number * 40_000;
    (vec![KeyMatch::Range { low: value(low), high: value(low + 39_999) }], 1, vec![low + 20_000])
}

/// Each range is around all that are better.
fn nested(number: u32, count: u32) -> Made {
    let (low, high) = ((1 << 31) - 1 - 20_000 * number, (1 << 31) + 20_000 * number);
    (vec![KeyMatch::Range { low: value(low), high: value(high) }], count - number, vec![high])
}

/// Networks of 8 to 32 bits, a protocol or any, ports of clients and of a service, or any.
fn access(number: u32, _: u32) -> Made {
    let any = |salt: u32, below: u32| any(number, salt) % below;
    let network = |salt: u32| {
        let key = self::any(number, salt);
        // Most networks are small, as in filters.
        let length = 32 - any(salt + 1, 5) * any(salt + 2, 7);
        (masked(key, u32::MAX << (32 - length)), key)
    };
    let (from, from_key) = network(0);
    let (to, to_key) = network(3);
    let (protocol, mask) = [(6, 255), (6, 255), (17, 255), (17, 0)][any(6, 4) as usize];
    let (client, client_key) =
        if any(7, 2) == 0 { ((0, 65_535), 80) } else { ((1024, 65_535), 40_000) };
    let service = any(8, 65_535);
    let ports = [(service, service), (service, service + (65_535 - service) / 16), (0, 65_535)];
    let (low, high) = ports[any(9, 3) as usize];
    let range = |low, high| KeyMatch::Range { low: value(low), high: value(high) };
    let matches =
        vec![from, to, masked(protocol, mask), range(client.0, client.1), range(low, high)];
    (matches, number + 1, vec![from_key, to_key, protocol, client_key, low])
}

/// [`access`] with a prefix of ports in place of each range.
fn access_masks(number: u32, count: u32) -> Made {
    let (mut matches, priority, keys) = access(number, count);
    for ((of, &key), salt) in matches[3..].iter_mut().zip(&keys[3..]).zip(20..) {
        // A port, a sixteenth of all ports, or any.
        let length = [16, 16, 4, 0][(any(number, salt) % 4) as usize];
        *of = masked(key, 0xffff << (16 - length) & 0xffff);
    }
    (matches, priority, keys)
}

/// Writes entries and keys, for a measurement of the same with another classifier. The first line
/// has the numbers of keys and of entries; each entry's has its priority and, in hexadecimal, values
/// and masks; then come the number of look-ups, and the keys of each.
fn write_rules(
    folder: &Path,
    shape: &Shape,
    entries: u32,
    made: impl Iterator<Item = Made>,
) -> Result<()> {
    let mut rules = format!("{} {entries}\n", shape.keys.len());
    let mut lookups = format!("{entries}\n");
    for (matches, priority, keys) in made {
        rules += &priority.to_string();
        for of in &matches {
            let KeyMatch::Ternary { value, mask } = of else { return Ok(()) };
            rules += &format!(" {:x}/{:x}", value.limb(0), mask.limb(0));
        }
        rules.push('\n');
        let keys: Vec<_> = keys.iter().map(|key| format!("{key:x}")).collect();
        lookups += &format!("{}\n", keys.join(" "));
    }
    let name = shape.name.replace([',', ' '], "");
    let path = folder.join(format!("{name}-{entries}.txt"));
    tributary_base::write_whole(&path, rules + &lookups)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A packet with these keys.
fn frame(shape: &Shape, keys: &[u32]) -> Vec<u8> {
    let bytes = |(&key, &(width, _)): (&u32, &(u32, &str))| {
        key.to_be_bytes()[4 - width as usize / 8..].to_vec()
    };
    keys.iter().zip(shape.keys).flat_map(bytes).collect()
}

/// Nanoseconds per packet; the packets come in turn, in an order that caches do not foresee.
fn measure(pipeline: &mut Pipeline, frames: &[Vec<u8>]) -> f64 {
    let mut packet = pipeline.new_packet();
    let begun = processor_time();
    for number in 0..PACKETS as usize {
        let frame = &frames[number * 7919 % frames.len()];
        black_box(pipeline.ingress(&mut packet, frame, &IngressInput::default()));
    }
    (processor_time() - begun).as_secs_f64() * 1e9 / f64::from(PACKETS)
}
