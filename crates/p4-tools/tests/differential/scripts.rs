//! Packet tests in STF on BMv2: those of `crates/switch/src/stf`, and generated ones.
//!
//! The embedded switch executes a test's commands. What they change there is written to BMv2 over
//! P4Runtime, before the next packet. So both switches get the same packets in the same state, and
//! BMv2's output is compared with what the test expects.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use tributary_controller::programs::Pipeline;
use tributary_p4::{Compilation, Sources};
use tributary_p4_tools::testgen::{Options, Subject, generate};
use tributary_switch::stf::Script;

use crate::mirror::State;
use crate::pair::{NoPair, compile, load};
use crate::streamed::Streamed;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Steps of the search for tests of a program, and a limit that only the largest ones reach.
const STEPS: usize = 300;
const TIME: Duration = Duration::from_secs(60);

/// Packet tests that BMv2 does not pass, with the reason.
const EXCEPTIONS: [(&str, &str); 8] = [
    ("arrays", "p4c's back end for BMv2 takes stacks of headers only"),
    ("lengths", "v1model has no packet_in.length"),
    ("loops", "p4c's back end for BMv2 takes no loop over a range"),
    ("meters", "its packets are seconds apart, in virtual time"),
    ("profiles", "BMv2's server sets no default action in a table with an action profile"),
    ("registers_by_test", "BMv2's server does not write registers"),
    ("subcontrols", "BMv2's server does not write registers"),
    ("value_sets", "BMv2's server does not write value sets"),
];

/// What BMv2 says of a multicast group beyond 4095, its default limit. Tests with one are not run.
const GROUP_TOO_HIGH: &str = "Group id value is too high";

/// Programs whose generated tests BMv2 does not all pass, with the reason.
const GENERATED_EXCEPTIONS: [(&str, &str); 4] = [
    ("arrays", "p4c's back end for BMv2 takes stacks of headers only"),
    ("lengths", "v1model has no packet_in.length"),
    ("loops", "p4c's back end for BMv2 takes no loop over a range"),
    ("value_sets", "BMv2's server does not write value sets"),
];

/// A trial for each packet test, and one for the generated tests of each program.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for script in files("crates/switch/tests/stf/cases", "stf") {
        if !is_exception(&script, &EXCEPTIONS) {
            let name = format!("stf::{}", stem(&script));
            trials.push(Trial::test(name, move || written(&script).map_err(Failed::from)));
        }
    }
    for folder in ["p4src/v1model", "crates/switch/tests/stf/cases"] {
        for program in files(folder, "p4") {
            if !is_exception(&program, &GENERATED_EXCEPTIONS) {
                let name = format!("generated::{}", stem(&program));
                trials.push(Trial::test(name, move || generated(&program).map_err(Failed::from)));
            }
        }
    }
    trials
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = Path::new(ROOT).join(folder).read_dir().expect("it is part of the sources");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect();
    files.sort();
    files
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_exception(path: &Path, exceptions: &[(&str, &str)]) -> bool {
    exceptions.iter().any(|(name, _)| *name == stem(path))
}

fn compiled(program: &Path) -> Result<(Compilation, Pipeline), String> {
    compile(&program.display().to_string()).map_err(|why| match why {
        NoPair::Refused(why) | NoPair::Differs(why) => why,
    })
}

fn written(script: &Path) -> Result<(), String> {
    let (compiled, pipeline) = compiled(&script.with_extension("p4"))?;
    let text = fs::read_to_string(script).map_err(|error| error.to_string())?;
    passes(&text, &compiled, &pipeline)
}

fn generated(program: &Path) -> Result<(), String> {
    let (compiled, pipeline) = compiled(program)?;
    let marked = tributary_p4::compile(
        &Sources::disk(),
        &program.display().to_string(),
        tributary_p4::Options::marked(&[]),
    );
    let subject = Subject::new(marked.map_err(|errors| errors.render(false))?);
    let subject = subject.map_err(|error| error.to_string())?;
    // BMv2's server does not write registers.
    let options = Options { steps: STEPS, time: TIME, presets: false, ..Options::default() };
    let generated = generate(&subject, &options, &mut |_| {});
    let mut passed = 0;
    for (number, test) in generated.tests.iter().enumerate() {
        match passes(&test.text, &compiled, &pipeline) {
            Ok(()) => passed += 1,
            Err(why) if why.contains(GROUP_TOO_HIGH) => {}
            Err(why) => return Err(format!("generated test {number}: {why}\n{}", test.text)),
        }
    }
    println!(
        "{passed} of {} generated tests pass on BMv2: {}",
        generated.tests.len(),
        stem(program)
    );
    match passed {
        0 => Err("no test was generated that BMv2 can run".to_owned()),
        _ => Ok(()),
    }
}

/// Runs a test on a new BMv2.
fn passes(text: &str, compiled: &Compilation, pipeline: &Pipeline) -> Result<(), String> {
    let script = Script::parse(text).map_err(|error| error.to_string())?;
    let mut bmv2 = Streamed::start(pipeline)?;
    let mut sent: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    let mut state: Option<State> = None;
    let mut packets = script.sends();
    let mut failed = None;
    let outcome = tributary_switch::stf::run_with(&script, load(compiled)?, &mut |switch| {
        let mut step = || {
            // It is called once before the first statement.
            if state.is_some()
                && let Some((port, data)) = packets.next().flatten()
            {
                for (port, frame) in bmv2.pass(port, data)? {
                    sent.entry(port).or_default().push(frame);
                }
                return Ok(());
            }
            let now = State::of(switch)?;
            let before = state.replace(now.clone()).unwrap_or_else(|| now.clone());
            for update in before.updates_to(&now) {
                bmv2.write(&update).map_err(|why| format!("BMv2 refuses {update:?}: {why}"))?;
            }
            Ok::<_, String>(())
        };
        if failed.is_none() {
            failed = step().err();
        }
    });
    outcome.map_err(|failure| format!("on the embedded switch: {failure}"))?;
    match failed {
        Some(why) => Err(why),
        None => script.compare(&sent).map_err(|failure| format!("on BMv2: {failure}")),
    }
}
