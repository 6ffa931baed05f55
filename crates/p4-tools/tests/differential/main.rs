//! The embedded switch and BMv2 on small programs, each about one feature of v1model. The same
//! random entries and packets go through both, and outgoing frames, counters and direct counters
//! must be equal.
//!
//! Without BMv2 and p4c on the PATH, the same packets go through the embedded switch alone, which
//! must accept all programs, entries and packets. It must refuse unsupported features by name.
//!
//! A failure names its seed; `TRIBUTARY_SEED=N` runs that seed alone. [`programs`] lists the
//! programs, [`draw`] draws entries and packets, [`resources`] the objects that entries refer to;
//! [`switches`] are the two switches.
//!
//! With BMv2, there are two more comparisons, whose packets go over gRPC ([`streamed`]):
//!
//! - [`scripts`]: the packet tests of `crates/switch/src/stf`, and the tests that `tributary p4 test` generates
//!   for their programs and for the switch programs, must pass on BMv2.
//! - [`samples`]: if `TRIBUTARY_P4_SAMPLES` names a folder of programs, each of its v1model programs
//!   runs on both switches. [`known`] lists those with known differences.

use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Failed, Trial};
use tributary_controller::p4c;
use tributary_run::testbed::enter_user_namespace_if_needed;

mod draw;
mod known;
mod lockstep;
mod mirror;
mod pair;
mod programs;
mod refused;
mod resources;
mod samples;
mod scripts;
mod streamed;
mod switches;

/// Why BMv2 is not used; `None` if it is.
static OBSTACLE: OnceLock<Option<String>> = OnceLock::new();

/// Whether BMv2 is available.
fn with_bmv2() -> bool {
    OBSTACLE.get().is_some_and(Option::is_none)
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // This must happen before any thread is started.
    let obstacle = p4c::find("simple_switch_grpc", "")
        .and_then(|_| p4c::bmv2_compiler())
        .map_err(|error| match error {
            tributary_controller::Error::NoTool { program, .. } => {
                format!("skipped: {program} not found on the PATH")
            }
            other => format!("skipped: {other}"),
        })
        .and_then(|_| {
            enter_user_namespace_if_needed().map_err(|refusal| format!("skipped: {refusal}"))
        })
        .err();
    if let (Some(obstacle), false) = (&obstacle, arguments.list) {
        eprintln!("{obstacle}");
    }
    OBSTACLE.get_or_init(|| obstacle);
    // BMv2 has several threads of its own.
    arguments.test_threads.get_or_insert(4);
    let same = programs::ALL.iter().map(|program| {
        Trial::test(format!("same::{}", program.name), move || {
            lockstep::run(program);
            Ok(())
        })
    });
    let refused = refused::ALL.iter().map(|(name, says)| {
        Trial::test(format!("refused::{name}"), move || {
            refused::check(name, says).map_err(Failed::from)
        })
    });
    let mut trials: Vec<Trial> = same.chain(refused).collect();
    if with_bmv2() {
        trials.extend(scripts::trials());
        trials.extend(samples::programs().into_iter().map(|path| {
            let name = format!("samples::{}", samples::name(&path));
            Trial::test(name, move || samples::run(&path).map_err(Failed::from))
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    samples::print_table();
    conclusion.exit_code()
}
