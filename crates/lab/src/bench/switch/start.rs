//! From P4 source to the first packet, and what its parts take.

use std::time::Instant;

use anyhow::{Result, anyhow};
use tributary_dataplane::{EngineKind, IngressInput, Pipeline};
use tributary_p4::{Options, compile_text};
use tributary_switch::Forwarding;

use super::super::Spread;
use super::super::engine::scenario;
use super::Measurement;
use crate::bench::{Args, Program};
use tributary_embedded::program;

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
        let parts = (0..args.repeat).map(|_| parts(&text)).collect::<Result<Vec<_>>>()?;
        for (at, what) in ["preprocess, parse, check and lower", "load"].into_iter().enumerate() {
            all.push(Measurement {
                what: format!("ATP, {values} values, {what}"),
                unit: "ms",
                interpreter: Some(Spread::of(parts.iter().map(|parts| parts[at]).collect())),
                compiled: None,
                goal: None,
            });
        }
    }
    Ok(all)
}

/// Milliseconds of the front end, and of the engine's loading.
fn parts(text: &str) -> Result<[f64; 2]> {
    let begun = Instant::now();
    // As a switch compiles what a controller sends.
    let compiled = compile_text("bench.p4", text, Options::marked(&[]));
    let program = compiled.map_err(|errors| anyhow!("{errors}"))?.program;
    let front = begun.elapsed();
    let begun = Instant::now();
    let pipeline = Pipeline::load(program).map_err(|error| anyhow!("{error}"))?;
    let load = begun.elapsed();
    drop(pipeline);
    Ok([front, load].map(|time| time.as_secs_f64() * 1e3))
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
