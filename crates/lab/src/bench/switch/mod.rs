//! The engine and its goals, in one run: the gain of machine code over the interpreter, a plain
//! Rust loop over the same registers, lookups by table size, the time from a program's source to
//! its first packet, and BMv2 if it is installed.
//!
//! Rates are per processor time of one core, to minimise the effect of the machine's other load.

mod cores;
mod forwarding;
mod lookups;
mod memory;
mod sai;
mod start;

use std::io::Write as _;

use anyhow::{Context, Result};
use serde::Serialize;
use tributary_base::OutputFile;
use tributary_dataplane::EngineKind;

use super::engine::{Bench, Case, fragment};
use super::{Spread, bmv2};
use crate::bench::{Args, Program};
use tributary_run::fabric::Bmv2;
use tributary_run::report::table;

/// The compared engines.
const ENGINES: [(&str, EngineKind); 2] =
    [("interpreter", EngineKind::Interpreter), ("compiled", EngineKind::Compiled)];

/// One line of the output.
#[derive(Serialize)]
struct Measurement {
    what: String,
    unit: &'static str,
    interpreter: Option<Spread>,
    /// The result of machine code, or of a measurement without an engine.
    compiled: Option<Spread>,
    /// The goal of machine code.
    goal: Option<f64>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    // Opened before the work, so that an error does not waste it.
    let json = args.json_out.as_ref().map(|path| {
        OutputFile::create(path).with_context(|| format!("cannot write {}", path.display()))
    });
    let json = json.transpose()?;
    let mut all = rates(args)?;
    all.push(forwarding::rate(args)?);
    if let Some(folder) = &args.sai {
        all.extend(sai::rates(args, folder)?);
    }
    all.extend(memory::bandwidth(args)?);
    all.extend(start::times(args)?);
    println!("\nThe switch's engine, one core: median (range) of {} repetitions", args.repeat);
    print(&all, &["interpreter", "compiled", "goal"]);
    println!("\nTable look-ups: entries in the table, and what a packet and an insertion take");
    let found = lookups::times(args)?;
    println!("{}", lookups::rows(&found));
    cores::run(args)?;
    if let Some(mut file) = json {
        let text = serde_json::to_string_pretty(&(&all, &found))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.finish())
            .context("cannot write the measurements")?;
    }
    match Bmv2::find() {
        Ok(_) => bmv2::run(args),
        Err(missing) => {
            println!("\nBetween network namespaces, beside BMv2: skipped: {missing}");
            Ok(())
        }
    }
}

fn print(all: &[Measurement], columns: &[&str]) {
    let header: Vec<&str> = ["what", "unit"].iter().chain(columns).copied().collect();
    let mut rows = table(&header);
    for line in all {
        let text = |spread: &Option<Spread>| spread.map_or("–".to_owned(), |s| s.text(2));
        let goal = line.goal.map_or("–".to_owned(), |goal| goal.to_string());
        rows.add_row([
            line.what.clone(),
            line.unit.to_owned(),
            text(&line.interpreter),
            text(&line.compiled),
            goal,
        ]);
    }
    println!("{rows}");
}

/// ATP by packet and by fragment, in memory that fits into the caches.
fn rates(args: &Args) -> Result<Vec<Measurement>> {
    let mut all = Vec::new();
    for values in [64, 2048] {
        let mut bench = Bench::new(Program::Atp, values)?;
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..args.repeat {
            for (costs, (_, kind)) in costs.iter_mut().zip(ENGINES) {
                bench.use_engine(kind);
                costs.push(bench.measure());
            }
        }
        let rate = |which: usize, cases: &[Case]| {
            let nanos = |costs: &super::engine::Costs| -> f64 {
                cases.iter().map(|&case| costs.of(case)).sum::<f64>() / cases.len() as f64
            };
            Spread::of(costs[which].iter().map(|costs| 1e3 / nanos(costs)).collect())
        };
        let mut line = |what: &str, cases: &[Case], goal| {
            all.push(Measurement {
                what: format!("ATP, {values} values, {what}"),
                unit: "million packets/s",
                interpreter: Some(rate(0, cases)),
                compiled: Some(rate(1, cases)),
                goal,
            });
        };
        for &case in fragment(Program::Atp) {
            line(case.name(), &[case], None);
        }
        line("fragment", fragment(Program::Atp), (values == 64).then_some(2.0));
    }
    Ok(all)
}
