//! Random header layouts and parsers.

use std::fmt::Write as _;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tributary_p4::compile_text;

use crate::agreement::Subject;

/// Programs in a default run; `TRIBUTARY_SEEDS` sets another number.
const SEEDS: u64 = 60;

/// Frames for each program.
const FRAMES: usize = 60;

/// A header: the widths of its fields, and whether they are signed.
struct Layout {
    fields: Vec<(u32, bool)>,
}

impl Layout {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let count = random.random_range(1..7);
        let width = |random: &mut ChaCha8Rng| match random.random_range(0..6) {
            0 => 1,
            1 => 8 * random.random_range(1..5),
            2 => random.random_range(30..130),
            _ => random.random_range(1..34),
        };
        let mut fields: Vec<_> =
            (0..count).map(|_| (width(random), random.random_bool(0.2))).collect();
        let bits: u32 = fields.iter().map(|(width, _)| width).sum();
        if !bits.is_multiple_of(8) {
            fields.push((8 - bits % 8, false));
        }
        Self { fields }
    }
}

/// A value of this width as a P4 literal; often small.
fn literal(random: &mut ChaCha8Rng, width: u32, signed: bool) -> String {
    // The highest bit of a signed literal would not fit.
    let bits = (width - u32::from(signed)).min(100);
    let mask = (1_u128 << bits) - 1;
    let value =
        if random.random() { u128::from(random.random::<u8>() % 4) } else { random.random() };
    format!("{width}{}{}", if signed { 's' } else { 'w' }, value & mask)
}

/// A program whose states extract random headers, one after the other, and choose the next by random
/// fields.
#[expect(clippy::too_many_lines, reason = "one program")]
fn draw(seed: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let states = random.random_range(2..6);
    let layouts: Vec<_> = (0..states).map(|_| Layout::draw(&mut random)).collect();
    let stack = random.random_range(0..states);
    let (mut types, mut members, mut body) = (String::new(), String::new(), String::new());
    for (at, Layout { fields }) in layouts.iter().enumerate() {
        let _ = write!(types, "header h{at}_t {{ ");
        for (field, (width, signed)) in fields.iter().enumerate() {
            let kind = if *signed { "int" } else { "bit" };
            let _ = write!(types, "{kind}<{width}> f{field}; ");
        }
        types.push_str("}\n");
        let elements = if at == stack { "[3]" } else { "" };
        let _ = write!(members, "h{at}_t{elements} h{at}; ");
        let name = if at == 0 { "start".into() } else { format!("s{at}") };
        let (extracted, read) = match at == stack {
            true => (format!("hdr.h{at}.next"), format!("hdr.h{at}.last")),
            false => (format!("hdr.h{at}"), format!("hdr.h{at}")),
        };
        let _ = writeln!(body, "state {name} {{ packet.extract({extracted});");
        match random.random_range(0..6) {
            0 => body.push_str("packet.advance(8);\n"),
            1 => body.push_str("meta.seen = packet.lookahead<peek_t>().low;\n"),
            _ => {}
        }
        let keys: Vec<usize> =
            (0..random.random_range(1..3)).map(|_| random.random_range(0..fields.len())).collect();
        let key = |&key: &usize| format!("{read}.f{key}");
        let mut selected: Vec<_> = keys.iter().map(key).collect();
        selected.push("meta.seen".into());
        let _ = writeln!(body, "transition select({}) {{", selected.join(", "));
        for _ in 0..random.random_range(1..4) {
            let mut set = |width: u32, signed: bool| match random.random_range(0..4) {
                0 => "_".to_owned(),
                1 if !signed => {
                    let (value, mask) =
                        (literal(&mut random, width, false), literal(&mut random, width, false));
                    format!("{value} &&& {mask}")
                }
                2 => {
                    let (low, high) =
                        (literal(&mut random, width, signed), literal(&mut random, width, signed));
                    // Ranges must not be empty.
                    let number = |text: &str| -> u128 {
                        text.split(['w', 's']).nth(1).unwrap().parse().unwrap()
                    };
                    if number(&low) <= number(&high) {
                        format!("{low}..{high}")
                    } else {
                        format!("{high}..{low}")
                    }
                }
                _ => literal(&mut random, width, signed),
            };
            let mut sets: Vec<_> =
                keys.iter().map(|key| set(fields[*key].0, fields[*key].1)).collect();
            sets.push(set(5, false));
            let target = target(&mut random, at, states, stack);
            let _ = writeln!(body, "({}): {target};", sets.join(", "));
        }
        if at == stack {
            // A parser that only goes round is refused.
            let mut sets: Vec<_> = (keys.iter())
                .map(|key| literal(&mut random, fields[*key].0, fields[*key].1))
                .collect();
            sets.push(literal(&mut random, 5, false));
            let target = later(&mut random, at, states);
            let _ = writeln!(body, "({}): {target};", sets.join(", "));
        }
        if random.random_bool(0.8) {
            let _ = writeln!(body, "default: {};", target(&mut random, at, states, stack));
        }
        body.push_str("}}\n");
    }
    format!(
        "#include <core.p4>\n#include <v1model.p4>\n{types}
         header peek_t {{ bit<3> high; bit<5> low; }}
         struct headers_t {{ {members} }}
         struct metadata_t {{ bit<5> seen; }}
         parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t sm) {{ {body} }}
         control Verify(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
         control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{}} }}
         control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{}} }}
         control Update(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
         control Emit(packet_out packet, in headers_t hdr) {{ apply {{}} }}
         V1Switch(Parse(), Verify(), In(), Out(), Update(), Emit()) main;"
    )
}

/// A later state, or the same one if it extracts the elements of the stack.
fn target(random: &mut ChaCha8Rng, at: usize, states: usize, stack: usize) -> String {
    if at == stack && random.random() {
        return if at == 0 { "start".into() } else { format!("s{at}") };
    }
    later(random, at, states)
}

fn later(random: &mut ChaCha8Rng, at: usize, states: usize) -> String {
    match random.random_range(at + 1..=states) {
        last if last == states => "accept".into(),
        next => format!("s{next}"),
    }
}

#[test]
fn random_layouts_are_shown_as_the_switch_extracts_them() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match number("TRIBUTARY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRIBUTARY_SEEDS").unwrap_or(SEEDS),
    };
    let count = seeds.end - seeds.start;
    let mut headers = 0;
    for seed in seeds {
        let text = draw(seed);
        let compiled = compile_text("random.p4", &text, &[]);
        let program = match compiled {
            Ok(compiled) => compiled.program,
            Err(errors) => panic!("seed {seed}: {}\n{text}", errors.render(false)),
        };
        eprintln!("seed {seed}");
        let mut subject = Subject::new(program);
        assert_eq!(subject.dissector.gaps, [""; 0], "seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..FRAMES {
            let zeros = random.random_bool(0.5);
            let byte = |random: &mut ChaCha8Rng| match zeros && random.random_bool(0.8) {
                true => 0,
                false => random.random(),
            };
            let length = random.random_range(0..120);
            let frame: Vec<u8> = (0..length).map(|_| byte(&mut random)).collect();
            headers += subject.compare(&frame);
        }
    }
    assert!(headers as u64 > 60 * count, "{headers} headers");
}
