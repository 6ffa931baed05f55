//! Compiles and loads programs.

use std::sync::{Arc, OnceLock};

use tributary_dataplane::{MachineCode, Pipeline, Ready};
use tributary_p4::ir::Program;
use tributary_p4::{Defines, Diagnostic, Options, Severity, Sources};
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;

use super::{Forwarding, unusable};
use crate::entities::{Names, Objects, Refusal, initial_state};
use crate::kept::Kept;
use crate::p4info;

/// The last four programs that controllers have sent to switches of this process, by source text, with their
/// machine code. Each process group of a training script has a switch, and all run the same program.
static COMPILED: Kept<String, Known> = Kept::new(4);

/// A compiled program.
struct Known {
    program: Arc<Program>,
    p4info: P4Info,
    /// What the engine makes of it, once a switch has loaded it.
    ready: OnceLock<Ready>,
    machine_code: OnceLock<MachineCode>,
}

impl Forwarding {
    /// Compiles the P4 source in a configuration's `p4_device_config`, unless the process has done that
    /// before, and checks the configuration's P4Info against it. This takes milliseconds and needs no
    /// switch: do it on another thread than the packets.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the compiler's diagnostics, or with the first difference of the
    /// P4Info.
    pub fn compile(config: ForwardingPipelineConfig) -> Result<Self, Refusal> {
        let Some(sent) = &config.p4info else {
            return Err(Refusal::invalid("the configuration has no P4Info"));
        };
        let source = std::str::from_utf8(&config.p4_device_config).map_err(|_| {
            Refusal::invalid("p4_device_config is not text: this switch runs P4 source")
        })?;
        let known = COMPILED.get(source.to_owned(), || {
            let (program, p4info) = front_end(source)?;
            let program = Arc::new(program);
            let (ready, machine_code) = (OnceLock::new(), OnceLock::new());
            Ok::<_, Refusal>(Known { program, p4info, ready, machine_code })
        })?;
        p4info::check(sent, &known.p4info)
            .map_err(|what| Refusal::invalid(format!("the P4Info is not the program's: {what}")))?;
        let make_ready = || match known.ready.get() {
            Some(ready) => Ok(ready.clone()),
            None => {
                let ready = Ready::new(Arc::clone(&known.program)).map_err(unusable)?;
                Ok(known.ready.get_or_init(|| ready).clone())
            }
        };
        let loaded = Self::load_ready(&known.program, make_ready, config)?;
        if let Some(code) = loaded.pipeline.machine_code() {
            known.machine_code.get_or_init(|| code);
        }
        Ok(loaded)
    }

    /// Compiles P4 source and uses the resulting P4Info.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the compiler's diagnostics.
    pub fn from_source(source: &str) -> Result<Self, Refusal> {
        let (program, p4info) = front_end(source)?;
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: source.into(),
            cookie: None,
        };
        Self::load(program, config)
    }

    /// Compiles and loads the program in a file, with marks for traces.
    ///
    /// # Errors
    /// The first error of the program, with its position, in one line.
    pub fn from_file(sources: &Sources, file: &str, defines: Defines<'_>) -> Result<Self, String> {
        let placed = |error: &Diagnostic| {
            format!("{}:{}:{}: {}", error.file, error.line, error.column, error.message)
        };
        let compiled = tributary_p4::compile(sources, file, Options::marked(defines));
        let compiled = compiled.map_err(|diagnostics| {
            let error = diagnostics.iter().find(|one| one.severity == Severity::Error);
            placed(error.expect("a program that is refused has an error"))
        })?;
        let p4info = Some(compiled.p4info);
        let config = ForwardingPipelineConfig { p4info, ..ForwardingPipelineConfig::default() };
        Self::load(compiled.program, config).map_err(|refusal| match &refusal.diagnostic {
            Some(error) => placed(error),
            None => format!("{file}: {refusal}"),
        })
    }

    /// Loads a compiled program, for many switches with one program.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the engine cannot run it, or it has no P4Info.
    pub fn load(
        program: impl Into<Arc<Program>>,
        config: ForwardingPipelineConfig,
    ) -> Result<Self, Refusal> {
        let program = program.into();
        let make_ready = || Ready::new(Arc::clone(&program)).map_err(unusable);
        Self::load_ready(&program, make_ready, config)
    }

    fn load_ready(
        program: &Program,
        make_ready: impl FnOnce() -> Result<Ready, Refusal>,
        config: ForwardingPipelineConfig,
    ) -> Result<Self, Refusal> {
        let p4info = config.p4info.as_ref();
        let p4info = p4info.ok_or_else(|| Refusal::invalid("the configuration has no P4Info"))?;
        let main = Some(program.origins.main());
        let objects = Objects::new(program, p4info);
        let mut objects = objects.map_err(|refusal| refusal.at(program, main))?;
        let constant: Vec<Vec<bool>> = program
            .tables
            .iter()
            .map(|table| table.entries.iter().map(|entry| entry.is_const).collect())
            .collect();
        let pipeline = Pipeline::of(make_ready()?);
        objects.fix_entries(&constant, &pipeline);
        objects.check_restrictions(&pipeline)?;
        let mut forwarding = Self::of(pipeline, Arc::new(objects), Arc::new(config));
        forwarding.names = Names::of(forwarding.objects.places(), initial_state(&forwarding));
        Ok(forwarding)
    }
}

/// Compiles source text to a program, with marks for traces, and P4Info. Diagnostics use the name before
/// the text's first line marker.
fn front_end(source: &str) -> Result<(Program, P4Info), Refusal> {
    tracing::debug!("compiling a P4 program for a switch");
    let options = Options::marked(&[]);
    match tributary_p4::compile_text("p4_device_config", source, options) {
        Ok(compilation) => Ok((compilation.program, compilation.p4info)),
        Err(diagnostics) => Err(match diagnostics.failure() {
            Some(failure) => Refusal::new(Code::ResourceExhausted, failure),
            None => Refusal::invalid(diagnostics.to_string()),
        }),
    }
}
