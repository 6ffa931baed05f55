//! The engine under test: the suite runs once in the binary `compiled` and once in `interpreted`.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use tributary_dataplane::{EngineKind, LoadError, Pipeline};
use tributary_p4::ir::Program;

const ENGINE: EngineKind = match env!("CARGO_CRATE_NAME").as_bytes() {
    b"compiled" => EngineKind::Compiled,
    _ => EngineKind::Interpreter,
};

/// Loads a program for the engine under test.
pub fn load(program: Program) -> Result<Pipeline, LoadError> {
    let mut pipeline = Pipeline::load(program)?;
    pipeline.use_engine(ENGINE);
    assert_eq!(pipeline.is_compiled(), ENGINE == EngineKind::Compiled, "the wrong engine runs");
    Ok(pipeline)
}
