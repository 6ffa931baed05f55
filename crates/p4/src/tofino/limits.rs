//! Resources that all register actions of a register share.

use std::collections::BTreeSet;

use super::{ACTIONS, ALUS, INPUTS, ROWS, Refusal, SMALL, STAGES};
use crate::ir::{ExternId, Program};
use crate::source::Span;

/// The resources of a register that a register action uses.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) register: ExternId,
    pub(crate) name: String,
    pub(crate) span: Span,
    /// Words of the packet.
    pub(crate) inputs: Vec<String>,
    /// Constants of instructions.
    pub(crate) constants: Vec<i128>,
    /// `RegisterParam`s.
    pub(crate) params: Vec<ExternId>,
    /// Powers of two that the comparisons' results represent in the output, or (`None`) all four
    /// results directly.
    pub(crate) flags: Vec<Option<i128>>,
}

/// The last component of a hierarchical name.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Checks the total resources that the actions of each register use.
pub(crate) fn check_registers(program: &Program, uses: &[Use], spans: &[Span]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut registers = Vec::new();
    for (i, e) in program.externs.iter().enumerate() {
        if matches!(e.type_name.as_str(), "Register" | "DirectRegister") {
            registers.push(ExternId(i as u32));
        }
    }
    let used = |r: &&ExternId| uses.iter().any(|u| u.register == **r);
    let count = registers.iter().filter(used).count();
    if let Some(last) = registers.iter().rfind(used)
        && count > STAGES * ALUS
    {
        refusals.push(Refusal::new(
            spans[last.index()],
            format!(
                "{count} registers need as many stateful ALUs, but a pipe has {}: {ALUS} in each of {STAGES} stages",
                STAGES * ALUS
            ),
            "let two words share a register as a pair, or spread the work over two passes",
        ));
    }
    for register in registers {
        let all: Vec<&Use> = uses.iter().filter(|u| u.register == register).collect();
        let name = short(&program.externs[register.index()].name);
        if all.len() > ACTIONS {
            let names: Vec<&str> = all.iter().map(|u| short(&u.name)).collect();
            refusals.push(Refusal::new(
                all[ACTIONS].span,
                format!(
                    "register `{name}` has {} register actions ({}), but its stateful ALU holds {ACTIONS}",
                    all.len(),
                    names.join(", ")
                ),
                "let one action do the work of two, with a word of the packet to tell them apart",
            ));
        }
        let mut inputs: Vec<&str> = Vec::new();
        for u in &all {
            for input in &u.inputs {
                if inputs.contains(&input.as_str()) {
                    continue;
                }
                inputs.push(input);
                if inputs.len() == INPUTS + 1 {
                    refusals.push(Refusal::new(
                        u.span,
                        format!(
                            "the actions of register `{name}` read more than {INPUTS} different words of the packet"
                        ),
                        "copy what they need into the same two fields of the metadata before",
                    ));
                }
            }
        }
        let flags: BTreeSet<Option<i128>> = all.iter().flat_map(|u| &u.flags).copied().collect();
        if let (Some(last), true) = (all.last(), flags.len() > 1) {
            refusals.push(Refusal::new(
                last.span,
                format!(
                    "the actions of register `{name}` return different powers of two, but all results of its comparisons are shifted alike"
                ),
                "return the same one in all actions, and tell them apart in the control",
            ));
        }
        let large: BTreeSet<i128> =
            all.iter().flat_map(|u| &u.constants).copied().filter(|c| !SMALL.contains(c)).collect();
        let params: BTreeSet<u32> = all.iter().flat_map(|u| &u.params).map(|p| p.0).collect();
        if let (Some(last), true) = (all.last(), large.len() + params.len() > ROWS) {
            refusals.push(Refusal::new(
                last.span,
                format!(
                    "the actions of register `{name}` use {} different constants and parameters that do not fit an instruction, but there are {ROWS} rows for them",
                    large.len() + params.len()
                ),
                format!(
                    "constants from {} to {} take no row; others can come from the metadata",
                    SMALL.start(),
                    SMALL.end()
                ),
            ));
        }
    }
    refusals
}
