//! Programs with a fault, which the search must find.

use tributary_controller::programs::Source;
use tributary_protocol::Exchange;

use crate::cases::{NO_FAULTS, ONE, TWO, esa, search};
use crate::model::Bounds;
use crate::segments::{LOCAL, STATIC, UNITS};
use crate::system::Setting;

/// ESA's program with one piece of its text replaced.
fn broken(file: &str, right: &str, wrong: &str) -> Source {
    broken_of("esa", file, right, wrong)
}

pub(crate) fn broken_of(protocol: &str, file: &str, right: &str, wrong: &str) -> Source {
    let mut source = Source::built_in(protocol).unwrap();
    let text = source.files.iter_mut().find(|(path, _)| path == file).map(|(_, text)| text);
    let text = text.expect("a file of the program");
    assert_eq!(text.matches(right).count(), 1, "{right}");
    *text = text.replace(right, wrong);
    source
}

fn found(setting: Setting, bounds: Bounds, source: &Source) -> String {
    let found = search("broken", setting, bounds, source).expect("the fault is to be found");
    println!("{found}");
    found
}

const DUPLICATE: Bounds = Bounds { duplicates: 1, ..NO_FAULTS };
const TIMER: Bounds = Bounds { timers: 1, ..NO_FAULTS };

#[test]
fn a_contribution_is_added_twice() {
    let source = broken(
        "include/v1model/aggregator/bitmap.p4",
        "if ((meta.held & bitmap) != 0) {",
        "if (meta.held == 0xffffffff) {",
    );
    assert!(found(ONE, DUPLICATE, &source).contains("I1"));
}

#[test]
fn an_evicted_sum_does_not_name_its_task() {
    let source = broken(
        "include/esa/rules.p4",
        "        hdr.aggregation.sequence = meta.held_sequence;\n        hdr.aggregation.bitmap = meta.held;",
        "        hdr.aggregation.sequence = meta.held_sequence;\n        hdr.aggregation.bitmap = meta.members;",
    );
    assert!(found(TWO, NO_FAULTS, &source).contains("I1"));
}

#[test]
fn an_evicted_sum_keeps_the_values_of_the_packet() {
    let source = broken(
        "include/esa/rules.p4",
        "meta.value_access = value_access_t.SWAP;",
        "meta.value_access = value_access_t.STORE;",
    );
    assert!(found(TWO, NO_FAULTS, &source).contains("I1"));
}

#[test]
fn a_priority_is_never_lowered() {
    let source = broken(
        "include/v1model/aggregator/priority.p4",
        "meta.stronger == 1 ? old : HALF(old)",
        "old",
    );
    assert!(found(TWO, NO_FAULTS, &source).contains("I3"));
}

#[test]
fn a_sweep_frees_nothing() {
    let source = broken(
        "include/v1model/aggregator/identity.p4",
        "tasks.write(index, old[63:32] == epoch ? 0 : old);",
        "tasks.write(index, old);",
    );
    assert!(found(ONE, NO_FAULTS, &source).contains("I4"));
}

#[test]
fn a_fetched_sum_does_not_name_its_task() {
    let source = broken(
        "include/esa/rules.p4",
        "        hdr.aggregation.resend = 1;\n        hdr.aggregation.bitmap = meta.held;",
        "        hdr.aggregation.resend = 1;",
    );
    // One contribution of the fragment is known by then; the sum claims both.
    assert!(found(ONE, TIMER, &source).contains("I1"));
}

#[test]
fn missing_values_are_not_requested() {
    // Workers that receive nothing from the agent: no sum is wrong, but losses are never repaired.
    let setting = Setting { deaf: true, ..ONE };
    let found = found(setting, NO_FAULTS, &esa());
    assert!(found.contains("fair runs complete"), "{found}");
}

// --- P4INC and SwitchML: what the copies are for ----------------------------------------------

const COPIES: &str = "include/v1model/aggregator/copies.p4";

#[test]
fn without_a_copy_a_lost_result_is_never_repaired() {
    // The copy is never used: the aggregator alone is not enough.
    let source =
        broken_of("p4inc", COPIES, "            meta.kept = 1;", "            meta.kept = 0;");
    let found = found(LOCAL, NO_FAULTS, &source);
    assert!(found.contains("fair runs complete"), "{found}");
}

#[test]
fn a_copy_names_the_wrong_round() {
    let source = broken_of(
        "p4inc",
        COPIES,
        "copy_access_t.KEEP:   keep();\n            copy_access_t.RECALL: recall();\n        }\n    }\n\n    apply {\n        access.apply();\n    }",
        "copy_access_t.RECALL: recall();\n        }\n    }\n\n    apply {\n        access.apply();\n    }",
    );
    // The previous content of the registers has an effect.
    let found = found(LOCAL, NO_FAULTS, &source);
    assert!(found.contains("dead registers have an effect"), "{found}");
}

#[test]
fn the_first_contribution_is_kept_as_copy() {
    let source = broken_of(
        "p4inc",
        COPIES,
        "(access_t.CLAIM, turn_t.STARTS,                 1,   1): keep();",
        "(access_t.CLAIM, turn_t.STARTS,                 _,   1): keep();",
    );
    // There is no copy yet, and other content is sent to a worker.
    let found = found(LOCAL, DUPLICATE, &source);
    assert!(found.contains("dead registers have an effect"), "{found}");
}

#[test]
fn a_sweep_forgets_the_copies() {
    let source = broken_of(
        "p4inc",
        COPIES,
        "(access_t.SWEEP, _,                             _,   _): sweep();",
        "",
    );
    assert!(found(LOCAL, NO_FAULTS, &source).contains("I4"));
}

#[test]
fn a_round_is_admitted_too_early() {
    let (right, wrong) = (
        "(old[63:32] < round && old[31:0] == 0 ? round ++ others : old));",
        "(old[63:32] < round ? round ++ others : old));",
    );
    // A window within the segment never sends such a packet.
    let file = "include/v1model/aggregator/rounds.p4";
    let source = broken_of("p4inc", file, right, wrong);
    assert_eq!(search("broken", LOCAL, DUPLICATE, &source), None);
    let beyond = Setting { slots: 2, ..UNITS };
    let found = found(beyond, NO_FAULTS, &source);
    assert!(found.contains("I1") || found.contains("fair runs complete"), "{found}");
}

#[test]
fn a_version_that_does_not_answer_never_repairs_a_result() {
    let source = broken_of(
        "switchml",
        "include/switchml/rules.p4",
        "(access_t.CLAIM, turn_t.AGAIN,  1, _): repeat();",
        "(access_t.CLAIM, turn_t.AGAIN,  1, _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);",
    );
    let found = found(STATIC, NO_FAULTS, &source);
    assert!(found.contains("fair runs complete"), "{found}");
}

/// What a worker does not send is not zero at the switch.
#[test]
fn zeros_that_are_not_sent_are_ones() {
    let source = broken_of("p4inc", "include/audiences.p4", "values.v##i = 0;", "values.v##i = 1;");
    let setting = Setting { parts: Some(Exchange::AllGather), ..LOCAL };
    assert!(found(setting, NO_FAULTS, &source).contains("I1"));
}

/// Values that the wrong workers get cost time only: the others ask for them.
#[test]
fn values_that_are_left_out_wrongly_are_asked_for() {
    let source = broken_of(
        "p4inc",
        "include/v1model/egress.p4",
        "!= 0) == (named == replica)) {",
        "!= 0) != (named == replica)) {",
    );
    for exchange in [Exchange::ReduceScatter, Exchange::AllGather] {
        let setting = Setting { parts: Some(exchange), ..LOCAL };
        assert_eq!(search("values left out wrongly", setting, TIMER, &source), None);
    }
}
