//! ATP with 2048 values in more memory than the caches hold, compared with a plain Rust loop over
//! registers of the same shape: the remaining memory bandwidth.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tributary_dataplane::{EgressInput, IngressInput, Instance, Packet, Verdict};
use tributary_switch::Switch;

use super::super::engine::{Case, Template, loaded, scenario, templates};
use super::super::{Spread, processor_time};
use super::{ENGINES, Measurement};
use crate::bench::{Args, Program};

const VALUES: u16 = 2048;
/// Rows of 8 KiB: 128 MiB.
const CELLS: u32 = 1 << 14;
/// Distance between consecutive rows, coprime to their number.
const STEP: u32 = 977;
/// Offset of the sequence and the aggregator in a frame.
const SEQUENCE: usize = 14 + 20 + 8 + 12;
const INDEX: usize = SEQUENCE + 12;

pub(super) fn bandwidth(args: &Args) -> Result<Vec<Measurement>> {
    let scenario = scenario(Program::Atp, VALUES, CELLS)?;
    let (switch, _) = loaded(&scenario)?;
    let packet = switch.forwarding().context("loaded above")?.pipeline().new_packet();
    let templates = templates(Program::Atp, &scenario);
    let mut rows = Rows { switch, packet, templates, out: Vec::new(), sequence: 0 };
    let mut plain = Plain::new();
    let mut found = [Vec::new(), Vec::new()];
    let mut loops = Vec::new();
    let mut shares = [Vec::new(), Vec::new()];
    for _ in 0..args.repeat {
        let alone = plain.measure();
        loops.push(alone);
        for (which, (_, kind)) in ENGINES.iter().enumerate() {
            let forwarding = rows.switch.forwarding_mut().context("loaded above")?;
            forwarding.pipeline_mut().use_engine(*kind);
            let rate = rows.measure()?;
            found[which].push(rate);
            shares[which].push(100.0 * rate / alone);
        }
    }
    let line = |what: &str, unit, [interpreter, compiled]: [Option<Spread>; 2], goal| Measurement {
        what: format!("{VALUES} values, 128 MiB of registers, {what}"),
        unit,
        interpreter,
        compiled,
        goal,
    };
    let spreads = |all: [Vec<f64>; 2]| all.map(|one| Some(Spread::of(one)));
    Ok(vec![
        line("plain Rust loop", "GB/s", [None, Some(Spread::of(loops))], None),
        line("ATP, add", "GB/s", spreads(found), None),
        line("ATP, add", "% of the loop", spreads(shares), Some(80.0)),
    ])
}

/// Bytes of all registers read and written per second.
fn rate(taken: Duration) -> f64 {
    2.0 * 4.0 * f64::from(VALUES) * f64::from(CELLS) / 1e9 / taken.as_secs_f64()
}

fn visited() -> impl Iterator<Item = u32> {
    (0..CELLS).map(|number| number.wrapping_mul(STEP) % CELLS)
}

struct Plain {
    registers: Vec<[u32; VALUES as usize]>,
    values: Vec<u32>,
}

impl Plain {
    fn new() -> Self {
        Self {
            registers: vec![[1; VALUES as usize]; CELLS as usize],
            values: (0..u32::from(VALUES)).collect(),
        }
    }

    fn measure(&mut self) -> f64 {
        let begun = processor_time();
        for row in visited() {
            for (register, value) in self.registers[row as usize].iter_mut().zip(&self.values) {
                *register = register.wrapping_add(*value);
            }
        }
        black_box(&self.registers);
        rate(processor_time() - begun)
    }
}

struct Rows {
    switch: Switch,
    packet: Packet,
    templates: Vec<Template>,
    out: Vec<u8>,
    sequence: u32,
}

impl Rows {
    /// Sends all packets of a fragment's life to every aggregator. Returns the bandwidth of those
    /// that are added.
    fn measure(&mut self) -> Result<f64> {
        let mut added = None;
        for at in 0..self.templates.len() {
            let begun = processor_time();
            self.pass(at);
            let taken = processor_time() - begun;
            if self.templates[at].case == Some(Case::Add) {
                added = Some(rate(taken));
            }
        }
        self.sequence += CELLS;
        let rate = added.context("ATP adds packets")?;
        ensure!(!self.out.is_empty(), "no sum left");
        Ok(rate)
    }

    fn pass(&mut self, at: usize) {
        let Template { port, frame, .. } = &mut self.templates[at];
        let pipeline =
            self.switch.forwarding_mut().expect("committed when it was made").pipeline_mut();
        for cell in visited() {
            frame[SEQUENCE..][..4].copy_from_slice(&(self.sequence + cell).to_be_bytes());
            frame[INDEX..][..4].copy_from_slice(&cell.to_be_bytes());
            let mut input = IngressInput { port: *port, ..IngressInput::default() };
            let verdict = loop {
                let ingress = pipeline.ingress(&mut self.packet, frame, &input);
                if !ingress.resubmit {
                    break ingress.verdict;
                }
                input = pipeline.next_pass(&input, Instance::Resubmitted);
            };
            if verdict != Verdict::Drop {
                let input = EgressInput { port: 1, ..EgressInput::default() };
                pipeline.egress(&mut self.packet, &input, &mut self.out);
                black_box(&self.out);
            }
        }
    }
}
