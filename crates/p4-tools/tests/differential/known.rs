//! Programs of p4c's `testdata/p4_16_samples` whose packets, digests or counters differ, with the
//! reason.

/// A program with a known difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    program: &'static str,
    /// Whether each run shows the difference. Others depend on random numbers or times.
    pub(crate) always: bool,
    /// For the table of outcomes.
    pub(crate) reason: &'static str,
}

const fn always(program: &'static str, reason: &'static str) -> Known {
    Known { program, always: true, reason }
}

const fn sometimes(program: &'static str, reason: &'static str) -> Known {
    Known { program, always: false, reason }
}

const INDEX: &str = "BMv2 ends if the index of a stack is beyond its end";
const LOAD: &str = "BMv2 does not load p4c's output";
const UNSET: &str = "reads an out parameter that nothing was assigned to, which has any value";
const STALE: &str = "uses a field of an invalid header, which BMv2 has from an earlier packet";

const LOOP: &str = "p4c loses the head of a loop, or its variable";
const DIGEST: &str = "BMv2's server does not take the digest";

const ALL: [Known; 27] = [
    always("control-hs-index-test1", INDEX),
    always("control-hs-index-test2", INDEX),
    always("control-hs-index-test3", LOAD),
    always("control-hs-index-test4", INDEX),
    always("control-hs-index-test5", INDEX),
    always("control-hs-index-test6", LOAD),
    always("extract_for_header_union", "BMv2 ends when a parser assigns to a header of a union"),
    always("gauntlet_short_circuit-bmv2", UNSET),
    always("gauntlet_side_effects_in_mux-bmv2", UNSET),
    always("gauntlet_uninitialized_bool_struct-bmv2", UNSET),
    always("issue1043-bmv2", "resubmits without end; BMv2 goes on for ever"),
    sometimes("issue1517-bmv2", "drops packets at random"),
    always("issue1566-bmv2", STALE),
    always("issue1607-bmv2", "BMv2 ends when a parser copies the last header of a stack"),
    always("issue2726-bmv2", INDEX),
    always("issue2735-bmv2", "p4c leaves a register out of the P4Info, whose type is a typedef"),
    always("issue2844-enum", STALE),
    always("issue3374", LOAD),
    always("issue430-1-bmv2", DIGEST),
    always("issue4739", LOOP),
    always("loop-3-clause-tricky2", LOOP),
    always("parser-unroll-test1", "calculates with an int without a width at run time"),
    always("runtime-index-2-bmv2", INDEX),
    always("runtime-index-bmv2", INDEX),
    always("switch_p4_16", STALE),
    always("v1model-digest-containing-ser-enum", DIGEST),
    always("v1model-digest-custom-type", DIGEST),
];

pub(crate) fn known(program: &str) -> Option<Known> {
    ALL.into_iter().find(|known| known.program == program)
}
