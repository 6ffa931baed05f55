//! Programs with a fault in them: a search that finds nothing there proves nothing elsewhere.

use tributary_controller::programs::Source;

use crate::cases::{NO_FAULTS, ONE, TWO, esa, search};
use crate::model::Bounds;
use crate::system::Setting;

/// The program with one piece of its text replaced.
fn broken(file: &str, right: &str, wrong: &str) -> Source {
    let mut source = esa();
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
        "include/aggregator/bitmap.p4",
        "if ((meta.held & bitmap) != 0) {",
        "if (meta.held == 0xffffffff) {",
    );
    assert!(found(ONE, DUPLICATE, &source).contains("I1"));
}

#[test]
fn an_evicted_sum_does_not_say_whose_it_is() {
    let source = broken(
        "v1model/esa.p4",
        "        hdr.aggregation.sequence = meta.held_sequence;\n        hdr.aggregation.bitmap = meta.held;",
        "        hdr.aggregation.sequence = meta.held_sequence;\n        hdr.aggregation.bitmap = meta.members;",
    );
    assert!(found(TWO, NO_FAULTS, &source).contains("I1"));
}

#[test]
fn an_evicted_sum_keeps_the_values_of_the_packet() {
    let source = broken(
        "v1model/esa.p4",
        "meta.value_access = value_access_t.SWAP;",
        "meta.value_access = value_access_t.STORE;",
    );
    assert!(found(TWO, NO_FAULTS, &source).contains("I1"));
}

#[test]
fn a_priority_is_never_lowered() {
    let source =
        broken("include/aggregator/priority.p4", "meta.stronger == 1 ? old : old >> 1", "old");
    assert!(found(TWO, NO_FAULTS, &source).contains("I3"));
}

#[test]
fn a_sweep_frees_nothing() {
    let source = broken(
        "include/aggregator/identity.p4",
        "tasks.write(index, old[47:32] == job ? 0 : old);",
        "tasks.write(index, old);",
    );
    assert!(found(ONE, NO_FAULTS, &source).contains("I4"));
}

#[test]
fn a_fetched_sum_does_not_say_whose_it_is() {
    let source = broken(
        "v1model/esa.p4",
        "        hdr.aggregation.resend = 1;\n        hdr.aggregation.bitmap = meta.held;",
        "        hdr.aggregation.resend = 1;",
    );
    // What is known of the fragment by then is one contribution, of which the sum says both.
    assert!(found(ONE, TIMER, &source).contains("I1"));
}

#[test]
fn nobody_is_asked_for_what_is_missing() {
    // Workers that do not hear the agent: nothing is wrong, but a loss is never made up for.
    let setting = Setting { deaf: true, ..ONE };
    let found = found(setting, NO_FAULTS, &esa());
    assert!(found.contains("fair runs complete"), "{found}");
}
