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
    /// `MathUnit`s.
    pub(crate) units: Vec<ExternId>,
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
    let mut used = Vec::new();
    for (i, e) in program.externs.iter().enumerate() {
        let register = ExternId(i as u32);
        let all: Vec<&Use> = uses.iter().filter(|u| u.register == register).collect();
        if matches!(e.type_name.as_str(), "Register" | "DirectRegister") && !all.is_empty() {
            used.push((register, all));
        }
    }
    let count = used.len();
    if let Some((last, _)) = used.last()
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
    for (register, all) in used {
        let name = short(&program.externs[register.index()].name);
        refusals.extend(too_many_actions(name, &all));
        refusals.extend(too_many_inputs(name, &all));
        refusals.extend(different_flags(name, &all));
        refusals.extend(too_many_units(name, &all));
        refusals.extend(too_many_constants(name, &all));
    }
    refusals
}

/// Whether there are more actions than the stateful ALU holds.
fn too_many_actions(name: &str, all: &[&Use]) -> Option<Refusal> {
    let beyond = all.get(ACTIONS)?;
    let names: Vec<&str> = all.iter().map(|u| short(&u.name)).collect();
    Some(Refusal::new(
        beyond.span,
        format!(
            "register `{name}` has {} register actions ({}), but its stateful ALU holds {ACTIONS}",
            all.len(),
            names.join(", ")
        ),
        "let one action do the work of two, with a word of the packet to tell them apart",
    ))
}

/// Whether the actions read more words of the packet than there are inputs.
fn too_many_inputs(name: &str, all: &[&Use]) -> Option<Refusal> {
    let mut inputs = BTreeSet::new();
    let beyond = all.iter().find(|u| {
        inputs.extend(&u.inputs);
        inputs.len() > INPUTS
    })?;
    Some(Refusal::new(
        beyond.span,
        format!(
            "the actions of register `{name}` read more than {INPUTS} different words of the packet"
        ),
        "copy what they need into the same two fields of the metadata before",
    ))
}

/// Whether the actions represent the results of comparisons by different powers of two.
fn different_flags(name: &str, all: &[&Use]) -> Option<Refusal> {
    let flags: BTreeSet<Option<i128>> = all.iter().flat_map(|u| &u.flags).copied().collect();
    let last = all.last().filter(|_| flags.len() > 1)?;
    Some(Refusal::new(
        last.span,
        format!(
            "the actions of register `{name}` return different powers of two, but all results of its comparisons are shifted alike"
        ),
        "return the same one in all actions, and tell them apart in the control",
    ))
}

/// Whether the actions use different math units.
fn too_many_units(name: &str, all: &[&Use]) -> Option<Refusal> {
    let units: BTreeSet<u32> = all.iter().flat_map(|u| &u.units).map(|unit| unit.0).collect();
    let last = all.last().filter(|_| units.len() > 1)?;
    Some(Refusal::new(
        last.span,
        format!(
            "the actions of register `{name}` use {} math units, but there is one",
            units.len()
        ),
        "use the same one in all actions, or give another register the other function",
    ))
}

/// Whether the actions use more large constants and parameters than there are rows for them.
fn too_many_constants(name: &str, all: &[&Use]) -> Option<Refusal> {
    let constants = all.iter().flat_map(|u| &u.constants).copied();
    let large: BTreeSet<i128> = constants.filter(|c| !SMALL.contains(c)).collect();
    let params: BTreeSet<u32> = all.iter().flat_map(|u| &u.params).map(|p| p.0).collect();
    let count = large.len() + params.len();
    let last = all.last().filter(|_| count > ROWS)?;
    Some(Refusal::new(
        last.span,
        format!(
            "the actions of register `{name}` use {count} different constants and parameters that do not fit an instruction, but there are {ROWS} rows for them"
        ),
        format!(
            "constants from {} to {} take no row; others can come from the metadata",
            SMALL.start(),
            SMALL.end()
        ),
    ))
}
