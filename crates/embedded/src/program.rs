//! The P4 program of a job file, compiled for its switches.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use tributary_controller::programs::{self, Compiled, Pipeline, Source};
use tributary_controller::targets::Kind;
use tributary_controller::{Catalogue, p4c};
use tributary_model::Scenario;
use tributary_p4::Architecture;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_switch::kept::Kept;

/// The protocol of all jobs: a switch runs one program.
///
/// # Errors
/// If they differ.
fn protocol(scenario: &Scenario) -> Result<&'static str> {
    let first = scenario.jobs.first().context("the job file has no job")?;
    if let Some(other) = scenario.jobs.iter().find(|job| job.protocol != first.protocol) {
        bail!(
            "jobs `{}` and `{}` use different protocols, and a switch runs one program; put them \
             into two job files",
            first.name,
            other.name
        );
    }
    Ok(first.protocol.name())
}

fn source(
    scenario: &Scenario,
    architecture: Architecture,
    replacement: Option<&Path>,
) -> Result<Source> {
    Ok(match replacement {
        Some(path) => Source::file(path)?,
        None => built_in_for(scenario, architecture)?,
    })
}

/// The library's v1model program for the scenario's protocol.
///
/// # Errors
/// If the jobs have different protocols.
pub fn built_in(scenario: &Scenario) -> Result<Source> {
    built_in_for(scenario, Architecture::V1model)
}

fn built_in_for(scenario: &Scenario, architecture: Architecture) -> Result<Source> {
    Ok(Source::built_in_for(architecture, protocol(scenario)?)?)
}

/// A protocol, and the constants of its program.
type Variant = (&'static str, Vec<(String, String)>);

/// The built-in pipelines that this process has compiled last.
static BUILT_IN: Kept<Variant, Pipeline> = Kept::new(4);

/// The pipeline of a scenario's embedded switches, with the program of its protocol, which a process
/// compiles once.
///
/// # Errors
/// As [`compile`].
pub fn pipeline_once(scenario: &Scenario) -> Result<Arc<Pipeline>> {
    let key = (protocol(scenario)?, programs::defines(&scenario.network.switch));
    BUILT_IN.get(key, || {
        tracing::debug!("compiling a P4 program for its controller");
        Ok(compile(scenario, None)?.pipeline)
    })
}

/// The v1model program of a scenario's switches: its protocol's, or a file.
///
/// # Errors
/// If it cannot be read or has errors; they are printed, and the error is one line.
pub fn compile(scenario: &Scenario, replacement: Option<&Path>) -> Result<Compiled> {
    compile_for(scenario, Architecture::V1model, replacement)
}

/// The program of a scenario's switches for an architecture. A file determines its architecture
/// itself.
///
/// # Errors
/// As [`compile`].
pub fn compile_for(
    scenario: &Scenario,
    architecture: Architecture,
    replacement: Option<&Path>,
) -> Result<Compiled> {
    let source = source(scenario, architecture, replacement)?;
    match programs::compile(&source, &programs::defines(&scenario.network.switch)) {
        Err(tributary_controller::Error::Compile(diagnostics)) => {
            eprint!("{diagnostics}");
            bail!("{} has errors", source.main)
        }
        other => {
            let compiled = other?;
            let found = compiled.program.architecture();
            ensure!(
                architecture == Architecture::V1model || found == Some(architecture),
                "--arch {architecture}: {} is for v1model; leave --arch out, or give another program",
                source.main
            );
            must_speak(scenario, &source.main, &compiled.pipeline.p4info)?;
            Ok(compiled)
        }
    }
}

/// Refuses a program with another protocol than the scenario's jobs, before a switch gets it.
///
/// # Errors
/// If the protocol differs, or the program lacks something that the controller uses.
pub fn must_speak(scenario: &Scenario, program: &str, p4info: &P4Info) -> Result<()> {
    let speaks = Catalogue::new(p4info)?.protocol().name();
    let wanted = scenario.network.protocol.name();
    ensure!(
        speaks == wanted,
        "{program} speaks {speaks}, and the jobs of the file use {wanted}; give another program, or \
         write another protocol into the file"
    );
    Ok(())
}

/// The pipeline for another kind of switch, from a program compiled for the embedded switch.
///
/// # Errors
/// If the switch needs another compiler that is missing or refuses the program; its messages are
/// printed, and the error is one line.
pub fn pipeline(
    scenario: &Scenario,
    replacement: Option<&Path>,
    compiled: Pipeline,
    switches: Kind,
) -> Result<Pipeline> {
    if switches == Kind::Embedded {
        return Ok(compiled);
    }
    let source = source(scenario, Architecture::V1model, replacement)?;
    match p4c::bmv2(&source, &programs::defines(&scenario.network.switch)) {
        Err(tributary_controller::Error::Compile(diagnostics)) => {
            eprint!("{diagnostics}");
            bail!("p4c cannot compile {} for BMv2", source.main)
        }
        other => Ok(other?),
    }
}
