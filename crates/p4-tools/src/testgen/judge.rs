//! Runs tests on the switch: what they reach, and which packets leave.

use std::collections::BTreeSet;
use std::fmt::Write;

use tributary_dataplane::EngineKind;
use tributary_p4::P4Info;
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_switch::Forwarding;
use tributary_switch::stf::Script;

use crate::testgen::case::{Case, hex};
use crate::testgen::circuit::{Gate, Lit, Word};
use crate::testgen::goals::Instrumented;
use crate::testgen::machine::Trace;

/// The outcome of a test on the switch.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) goals: BTreeSet<usize>,
    /// The test with the packets that left.
    pub(crate) text: String,
    /// Whether the model foresaw other packets.
    pub(crate) surprising: bool,
}

/// Loads a program for the interpreter, or for machine code.
pub(crate) fn load(
    program: &tributary_p4::ir::Program,
    p4info: &P4Info,
    engine: EngineKind,
) -> Result<Forwarding, String> {
    let config = ForwardingPipelineConfig { p4info: Some(p4info.clone()), ..Default::default() };
    let forwarding = Forwarding::load(program.clone(), config);
    let mut forwarding = forwarding.map_err(|refusal| refusal.to_string())?;
    forwarding.pipeline_mut().use_engine(engine);
    Ok(forwarding)
}

/// Runs a test with its expectations.
pub(crate) fn run(
    program: &tributary_p4::ir::Program,
    p4info: &P4Info,
    test: &Script,
    engine: EngineKind,
) -> Result<(), String> {
    let forwarding = load(program, p4info, engine)?;
    tributary_switch::stf::run(test, forwarding).map(drop).map_err(|failure| failure.to_string())
}

/// The goals that a script reaches.
pub(crate) fn coverage(
    of: &Instrumented,
    recording: &tributary_switch::stf::Recording,
) -> BTreeSet<usize> {
    let pipeline = recording.pipeline();
    let reached = |goal: &usize| {
        pipeline.counter_read(of.counter, *goal as u64).is_ok_and(|count| count.packets > 0)
    };
    (0..of.goals.len()).filter(reached).collect()
}

/// Runs a test. `None` if the switch refuses its entries.
pub(crate) fn judge(
    of: &Instrumented,
    p4info: &P4Info,
    case: &Case,
    trace: &Trace,
) -> Option<Verdict> {
    let mut text = case.setup(&of.program);
    let mut script = text.clone();
    for at in 0..case.packets.len() {
        script += &case.packet(at);
        script.push('\n');
    }
    let script = Script::parse(&script).ok()?;
    let forwarding = load(&of.program, p4info, EngineKind::Interpreter).ok()?;
    let recording = tributary_switch::stf::record(&script, forwarding).ok()?;
    let mut surprising = false;
    for (at, sent) in recording.outputs.iter().enumerate() {
        text += &case.packet(at);
        text.push('\n');
        let foreseen = trace.outputs.get(at).map_or(&[][..], Vec::as_slice);
        // Copies may leave in another order.
        let mut left: Vec<&(u64, Word)> = foreseen.iter().collect();
        for (port, frame) in sent {
            let bits = 8 * frame.len();
            let found =
                left.iter().position(|(p, word)| *p == u64::from(*port) && word.len() == bits);
            let digits = match found {
                Some(found) => {
                    let (_, word) = left.remove(found);
                    let (digits, same) = masked(trace, word, frame);
                    surprising |= !same;
                    digits
                }
                None => {
                    surprising = true;
                    frame.iter().map(|byte| format!("{byte:02x}")).collect()
                }
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "expect {port} {digits} $");
        }
        surprising |= !left.is_empty();
    }
    let mut goals = coverage(of, &recording);
    // Entries are not counted: what the model says holds if it foresaw the packets.
    let of_model = trace.goals.range(of.goals.len()..);
    goals.extend(of_model.filter(|_| !surprising));
    Some(Verdict { goals, text, surprising })
}

/// The digits of a packet, with `*` for those that the test does not determine, and whether the
/// model foresaw the others.
fn masked(trace: &Trace, word: &[Lit], frame: &[u8]) -> (String, bool) {
    let actual: Vec<bool> =
        frame.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1 == 1)).collect();
    let mut same = true;
    let mut digits = String::new();
    for (bits, four) in word.chunks(4).zip(actual.chunks(4)) {
        if !trace.unknown.is_empty() && depends_on_unknown(trace, bits) {
            digits.push('*');
            continue;
        }
        same &= bits.iter().zip(four).all(|(&lit, &bit)| trace.circuit.value(lit) == bit);
        digits += &hex(four);
    }
    (digits, same)
}

/// Whether bits depend on what the test does not determine.
pub(crate) fn depends_on_unknown(trace: &Trace, bits: &[Lit]) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<usize> = bits.iter().map(|lit| lit.gate()).collect();
    while let Some(gate) = waiting.pop() {
        if trace.unknown.contains(&Lit::of_gate(gate)) {
            return true;
        }
        if seen.insert(gate)
            && let Gate::And(a, b) = trace.circuit.gates()[gate]
        {
            waiting.extend([a.gate(), b.gate()]);
        }
    }
    false
}
