//! A switch program, compiled once for many switches and runs.

use std::sync::Arc;

use tributary_controller::Error;
use tributary_controller::programs::{self, Compiled, Source};
use tributary_model::SwitchSettings;
use tributary_p4::ir;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_switch::Forwarding;

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Program {
    program: Arc<ir::Program>,
    config: ForwardingPipelineConfig,
}

impl Program {
    /// Compiles a program with the constants of these settings.
    ///
    /// # Errors
    /// All errors of the program.
    pub fn compile(source: &Source, settings: &SwitchSettings) -> Result<Self, Error> {
        Ok(programs::compile(source, &programs::defines(settings))?.into())
    }

    /// The IDs of its tables, actions and counters.
    pub fn p4info(&self) -> &P4Info {
        self.config.p4info.as_ref().expect("set when it was compiled")
    }

    /// A fresh instance for a switch: empty tables, zero registers.
    #[must_use]
    pub fn load(&self) -> Forwarding {
        Forwarding::load(Arc::clone(&self.program), self.config.clone())
            .expect("a program that was compiled here can be loaded")
    }
}

impl From<Compiled> for Program {
    fn from(compiled: Compiled) -> Self {
        let config = ForwardingPipelineConfig {
            p4info: Some(compiled.pipeline.p4info),
            p4_device_config: compiled.pipeline.device_config,
            cookie: None,
        };
        Self { program: compiled.program.into(), config }
    }
}
