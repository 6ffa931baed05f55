//! An IPv4 router: the cost of forwarding alone.

use std::hint::black_box;

use anyhow::{Context, Result, anyhow, ensure};
use tributary_dataplane::{
    ActionCall, EgressInput, IngressInput, KeyMatch, Pipeline, TableEntry, Value, Verdict,
};
use tributary_p4::ir::TableId;

use super::super::{Spread, processor_time};
use super::{ENGINES, Measurement};
use crate::bench::Args;

const PROGRAM: &str = include_str!("l3.p4");
const PACKETS: u32 = 400_000;
const ROUTES: u32 = 1000;
const PORTS: u32 = 16;

pub(super) fn rate(args: &Args) -> Result<Measurement> {
    let mut pipeline = router()?;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..args.repeat {
        for (rates, (_, kind)) in rates.iter_mut().zip(ENGINES) {
            pipeline.use_engine(kind);
            rates.push(measure(&mut pipeline)?);
        }
    }
    let [interpreter, compiled] = rates.map(|rates| Some(Spread::of(rates)));
    Ok(Measurement {
        what: format!("L3 forwarding, {ROUTES} routes, 64 bytes"),
        unit: "million packets/s",
        interpreter,
        compiled,
        goal: Some(5.0),
    })
}

/// The router with routes of 16 bits.
fn router() -> Result<Pipeline> {
    let compiled = tributary_p4::compile_text("l3.p4", PROGRAM, &[])
        .map_err(|errors| anyhow!("the router has errors: {errors}"))?;
    let mut pipeline = Pipeline::load(compiled.program)?;
    let routes = TableId(0);
    for route in 0..ROUTES {
        let value = Value::from(u64::from(route) << 16);
        let args = [u64::from(route % PORTS + 1), 1, 2].map(Value::from).to_vec();
        let matches = vec![KeyMatch::Lpm { value, prefix_len: 16 }];
        let entry = TableEntry::new(matches, 0, ActionCall { action: 0, args });
        pipeline.insert(routes, entry).context("a route")?;
    }
    Ok(pipeline)
}

/// Millions of packets per second.
fn measure(pipeline: &mut Pipeline) -> Result<f64> {
    let mut frame = frame();
    let mut packet = pipeline.new_packet();
    let mut out = Vec::new();
    let mut left = 0;
    let begun = processor_time();
    for number in 0..PACKETS {
        let to = number.wrapping_mul(2_654_435_761) % (ROUTES << 16);
        frame[30..34].copy_from_slice(&to.to_be_bytes());
        let ingress = pipeline.ingress(&mut packet, &frame, &IngressInput::default());
        if let Verdict::Unicast(port) = ingress.verdict {
            let input = EgressInput { port, ..EgressInput::default() };
            left += u32::from(!pipeline.egress(&mut packet, &input, &mut out).drop);
            black_box(&out);
        }
    }
    let taken = processor_time() - begun;
    ensure!(left == PACKETS, "{left} of {PACKETS} packets were forwarded");
    Ok(f64::from(PACKETS) / 1e6 / taken.as_secs_f64())
}

/// 64 bytes of Ethernet and IPv4.
fn frame() -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&50u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame
}
