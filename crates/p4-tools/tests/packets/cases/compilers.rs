//! Both compilers produce equal P4Info, so a controller's entries suit either switch.

use super::{Case, cases};
use crate::embedded::Embedded;
use crate::target::{ALWAYS, Build, COIN, Target};
use crate::tools;
use tributary_p4::Architecture;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::text;

cases!("compilers": same_p4info_atp, same_p4info_esa, same_p4info_p4inc, same_p4info_switchml);

fn same_p4info_atp() {
    for values in [32, 64] {
        same_p4info(&Build { values, ..Build::PATIENT });
    }
}

/// For all eviction rules and codes of priorities, which do not affect the controller.
fn same_p4info_esa() {
    for values in [32, 64] {
        same_p4info(&Build { values, ..Build::ESA });
    }
    for preemption in [ALWAYS, COIN] {
        same_p4info(&Build { preemption, ..Build::ESA });
    }
    same_p4info(&Build { linear: true, ..Build::ESA });
}

fn same_p4info_p4inc() {
    for values in [32, 64] {
        same_p4info(&Build { values, ..Build::P4INC });
    }
}

fn same_p4info_switchml() {
    for values in [32, 64] {
        same_p4info(&Build { values, ..Build::SWITCHML });
    }
}

fn same_p4info(build: &Build) {
    let tools = tools::bmv2(|| None).as_ref().expect("else this is not run");
    let build = &Build { pool: 4096, ..*build };
    compare(&Embedded::new(build), &tools::compile(tools, build).p4info);
}

/// Compares our P4Info of a program with a compiler's.
fn compare(ours: &Embedded, theirs: &str) {
    let theirs = sorted(text::from_text(theirs).expect("P4Info"));
    let ours = sorted(ours.p4info().clone());
    let (ours, theirs) = (text::to_text(&ours), text::to_text(&theirs));
    let different = ours.lines().zip(theirs.lines()).position(|(ours, theirs)| ours != theirs);
    if let Some(line) = different {
        let near = |text: &str| -> String {
            text.lines().skip(line.saturating_sub(12)).take(24).collect::<Vec<_>>().join("\n")
        };
        panic!("line {line}: ours\n{}\n\np4c's\n{}", near(&ours), near(&theirs));
    }
    assert_eq!(ours.len(), theirs.len());
}

pub(in crate::cases) const FOR_TOFINO: &[Case] = &[
    ("compilers::fits_tofino_atp", || fits_tofino(&Build::PATIENT)),
    ("compilers::fits_tofino_esa", || fits_tofino(&Build::ESA)),
    ("compilers::fits_tofino_p4inc", || fits_tofino(&Build::P4INC)),
    ("compilers::fits_tofino_switchml", || fits_tofino(&Build::SWITCHML)),
];

/// The stages of one pipe.
const STAGES: usize = 12;

/// A program fits, and the back end's P4Info equals our front end's.
fn fits_tofino(build: &Build) {
    let compiler = tools::tofino().expect("else this is not run");
    let name = build.program.name();
    let compiled = tools::compile_for_tofino(&compiler, build.program);
    let compiled =
        compiled.unwrap_or_else(|messages| panic!("p4c-barefoot refuses {name}:\n{messages}"));
    assert!(compiled.stages <= STAGES, "{name}: {} stages", compiled.stages);
    let ours = Embedded::with(Architecture::Tna, &Build { pool: 4096, ..*build });
    compare(&ours, &compiled.p4info);
}

/// Everything that entities depend on, in an order independent of the compiler. Additional type
/// descriptions and port metadata are specific to compilers and omitted.
fn sorted(mut info: P4Info) -> P4Info {
    info.type_info = None;
    info.externs.clear();
    info.tables.sort_by_key(|t| t.preamble.as_ref().map(|p| p.id));
    info.actions.sort_by_key(|a| a.preamble.as_ref().map(|p| p.id));
    info.counters.sort_by_key(|c| c.preamble.as_ref().map(|p| p.id));
    info.direct_counters.sort_by_key(|c| c.preamble.as_ref().map(|p| p.id));
    info.registers.sort_by_key(|r| r.preamble.as_ref().map(|p| p.id));
    for table in &mut info.tables {
        table.action_refs.sort_by_key(|action| action.id);
    }
    info
}
