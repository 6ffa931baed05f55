//! From P4 source to the first packet.

use std::time::Instant;

use anyhow::{Result, anyhow};
use tributary_dataplane::{EngineKind, IngressInput};
use tributary_switch::Forwarding;

use super::super::Spread;
use super::super::engine::scenario;
use super::Measurement;
use crate::{Args, Program};
use tributary_job::program;

pub(super) fn times(args: &Args) -> Result<Vec<Measurement>> {
    let mut all = Vec::new();
    for values in [64, 2048] {
        let scenario = scenario(Program::Atp, values, 4096)?;
        let source = program::compile(&scenario, None)?.pipeline.device_config;
        let text = String::from_utf8(source)?;
        let of = |kind| {
            let taken = (0..args.repeat).map(|_| first_packet(&text, kind));
            taken.collect::<Result<Vec<f64>>>().map(|all| Some(Spread::of(all)))
        };
        all.push(Measurement {
            what: format!("ATP, {values} values, source to first packet"),
            unit: "ms",
            // As in a switch: starts with the interpreter, machine code follows.
            interpreter: of(EngineKind::Automatic)?,
            compiled: of(EngineKind::Compiled)?,
            goal: (values == 64).then_some(100.0),
        });
    }
    Ok(all)
}

/// Milliseconds of wall-clock time.
fn first_packet(text: &str, kind: EngineKind) -> Result<f64> {
    let begun = Instant::now();
    let mut forwarding = Forwarding::from_source(text).map_err(|error| anyhow!("{error}"))?;
    let pipeline = forwarding.pipeline_mut();
    pipeline.use_engine(kind);
    let mut packet = pipeline.new_packet();
    pipeline.ingress(&mut packet, &[0; 64], &IngressInput::default());
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
