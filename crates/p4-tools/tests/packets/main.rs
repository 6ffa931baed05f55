//! Rule-by-rule packet tests of the programs in `p4src/v1model/` and `p4src/tna/`.
//!
//! Every case sends frames through the embedded switch, with each variant of the program, and, if
//! `simple_switch_grpc` and `p4c-bm2-ss` are on the PATH, through BMv2. It compares frames and
//! counters with the protocols' pages in `docs/concepts/` and with each other. BMv2 is the
//! reference for the architecture.
//!
//! [`cases`] contains the cases, one file per part of the contract (programs other than ATP have
//! their own modules). [`scene`] has the switch and jobs that most of ATP's cases share, [`lab`]
//! runs switches in lockstep, and [`target`] is the interface of a switch.

mod bmv2;
mod cases;
mod controller;
mod embedded;
mod entries;
mod frames;
mod lab;
mod model;
mod scene;
mod target;
mod tools;

use libtest_mimic::{Arguments, Trial};
use tributary_run::testbed::enter_user_namespace_if_needed;

fn main() {
    let mut arguments = Arguments::from_args();
    // This must happen before there are threads.
    let bmv2 =
        tools::bmv2(|| enter_user_namespace_if_needed().err().map(|error| error.to_string()));
    if let (Err(why), false) = (bmv2, arguments.list) {
        eprintln!("{why}");
    }
    let tofino = tools::tofino();
    if let (Err(why), false) = (&tofino, arguments.list) {
        eprintln!("{why}");
    }
    if bmv2.is_ok() {
        // Tests mostly wait for BMv2, which passes frames on in blocks, some milliseconds late.
        arguments.test_threads.get_or_insert(8);
    }
    let trial = |(name, case): &(&'static str, fn())| {
        let case = *case;
        Trial::test(*name, move || {
            case();
            Ok(())
        })
    };
    let everywhere = cases::EVERYWHERE.iter().copied().flatten().map(trial);
    let with_bmv2 = cases::WITH_BMV2.iter().copied().flatten().map(trial);
    let with_bmv2 = with_bmv2.map(|trial| trial.with_ignored_flag(bmv2.is_err()));
    let for_tofino = cases::FOR_TOFINO.iter().copied().flatten().map(trial);
    let for_tofino = for_tofino.map(|trial| trial.with_ignored_flag(tofino.is_err()));
    let all = everywhere.chain(with_bmv2).chain(for_tofino);
    libtest_mimic::run(&arguments, all.collect()).exit();
}
