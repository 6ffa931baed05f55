//! Small programs, each about one capability or limit of a stateful ALU. `stateful` checks the
//! verdict of this compiler, `barefoot` that of Tofino's own.

/// The verdict of a compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Fits,
    /// Rejected with a message that contains this.
    Refused(&'static str),
    /// Rejected in the same way by this compiler. `p4c-barefoot` accepts the program, but compiles
    /// it to something that differs from the language's semantics.
    Stricter(&'static str),
}

use Verdict::{Fits, Refused, Stricter};

/// Register actions on one register.
pub(super) struct Sample {
    pub(super) name: &'static str,
    /// Type of the register's cell.
    pub(super) cell: &'static str,
    /// Type of the result.
    pub(super) result: &'static str,
    /// The bodies of `apply(inout cell value, out result rv)`, one per action.
    pub(super) bodies: &'static [&'static str],
    pub(super) verdict: Verdict,
}

impl Sample {
    /// Declarations of the control and its statements. The actions are called on mutually exclusive
    /// paths.
    pub(super) fn source(&self) -> String {
        let Self { cell, result, .. } = self;
        let mut locals = format!("Register<{cell}, bit<16>>(1024) reg;\n");
        let mut apply = String::new();
        let narrow = match *result {
            "bit<32>" => "",
            "bool" => "(bit<32>)(bit<1>)",
            _ => "(bit<32>)",
        };
        for (i, body) in self.bodies.iter().enumerate() {
            locals += &format!(
                "RegisterAction<{cell}, bit<16>, {result}>(reg) act{i} = {{
    void apply(inout {cell} value, out {result} rv) {{ {body} }}
}};\n"
            );
            let condition = match i {
                0 => String::new(),
                _ => format!("else if (hdr.d.f == {i}) "),
            };
            let first = if i == 0 && self.bodies.len() > 1 { "if (hdr.d.f == 0) " } else { "" };
            apply += &format!(
                "{condition}{first}{{ hdr.d.r = {narrow}act{i}.execute(hdr.d.index); }}\n"
            );
        }
        super::program("", &locals, &apply)
    }
}

const fn word(name: &'static str, bodies: &'static [&'static str], verdict: Verdict) -> Sample {
    Sample { name, cell: "bit<32>", result: "bit<32>", bodies, verdict }
}

const fn pair(name: &'static str, bodies: &'static [&'static str], verdict: Verdict) -> Sample {
    Sample { name, cell: "pair_t", result: "bit<32>", bodies, verdict }
}

const fn of(
    name: &'static str,
    cell: &'static str,
    result: &'static str,
    bodies: &'static [&'static str],
    verdict: Verdict,
) -> Sample {
    Sample { name, cell, result, bodies, verdict }
}

pub(super) const SAMPLES: &[Sample] = &[
    // Cells.
    of("cell_8", "bit<8>", "bit<8>", &["value = value + hdr.d.e; rv = value;"], Fits),
    of("cell_16", "bit<16>", "bit<16>", &["value = value + hdr.d.c; rv = value;"], Fits),
    word("cell_32", &["value = value + hdr.d.a; rv = value;"], Fits),
    of("cell_signed", "int<32>", "int<32>", &["value = value |+| 7; rv = value;"], Fits),
    of("cell_pair_8", "pair8_t", "bit<8>", &["value.lo = hdr.d.e; rv = value.hi;"], Fits),
    of("cell_pair_16", "pair16_t", "bit<16>", &["value.hi = hdr.d.c; rv = value.lo;"], Fits),
    of("cell_4", "bit<4>", "bit<4>", &["rv = value;"], Refused("does not fit a register")),
    of("cell_24", "bit<24>", "bit<24>", &["rv = value;"], Refused("does not fit a register")),
    of("cell_three", "three_t", "bit<32>", &["rv = value.x;"], Refused("does not fit a register")),
    of(
        "cell_unequal",
        "unequal_t",
        "bit<32>",
        &["rv = value.x;"],
        Refused("does not fit a register"),
    ),
    of("bit_set", "bit<1>", "bit<1>", &["rv = value; value = 1;"], Fits),
    of(
        "bit_conditional",
        "bit<1>",
        "bit<1>",
        &["rv = value; if (hdr.d.e == 1) { value = 1; }"],
        Refused("no comparisons"),
    ),
    of(
        "bit_computed",
        "bit<1>",
        "bit<1>",
        &["rv = value; value = value ^ 1;"],
        Refused("not computed"),
    ),
    // Updates.
    word("add_constant", &["value = value + 1; rv = value;"], Fits),
    word("add_old", &["rv = value; value = value + hdr.d.a;"], Fits),
    word("subtract", &["value = value - hdr.d.a; rv = value;"], Fits),
    word("subtract_from", &["value = hdr.d.a - value; rv = value;"], Fits),
    word("saturate", &["value = value |+| hdr.d.a; rv = value;"], Fits),
    word("saturate_down", &["value = value |-| 1; rv = value;"], Fits),
    word("bit_or", &["rv = value; value = value | hdr.d.a;"], Fits),
    word("bit_and", &["rv = value; value = value & hdr.d.a;"], Fits),
    word("bit_clear", &["rv = value; value = value & ~hdr.d.a;"], Fits),
    word("bit_xor", &["rv = value; value = value ^ hdr.d.a;"], Fits),
    word("bit_not", &["rv = value; value = ~value;"], Fits),
    word("largest", &["value = max(value, hdr.d.a); rv = value;"], Fits),
    word("smallest", &["value = min(value, hdr.d.a); rv = value;"], Fits),
    word("store", &["rv = value; value = hdr.d.a;"], Fits),
    word("store_concatenation", &["rv = value; value = hdr.d.c ++ hdr.d.d;"], Fits),
    word("store_extended", &["rv = value; value = (bit<32>)hdr.d.c;"], Fits),
    word(
        "two_operations",
        &["rv = value; value = value + hdr.d.a + hdr.d.b;"],
        Refused("more than one operation"),
    ),
    word("multiply", &["rv = value; value = value * 3;"], Refused("no multiplication")),
    word("shift", &["rv = value; value = value << 1;"], Refused("no shift")),
    word(
        "inputs_only",
        &["rv = value; value = hdr.d.a + hdr.d.b;"],
        Refused("one word of the packet, not two"),
    ),
    pair(
        "words_only",
        &["rv = value.lo; value.lo = value.lo + value.hi;"],
        Refused("one word of the cell, not both"),
    ),
    pair("swap", &["rv = value.lo; value = { value.hi, value.lo };"], Refused("for the other")),
    pair("cross", &["rv = value.lo; value.lo = value.hi + 1;"], Fits),
    word(
        "or_of_two",
        &["if (hdr.d.b == 0) { value = (value & 15) | (hdr.d.a + 1); } rv = 0;"],
        Fits,
    ),
    word(
        "or_of_three",
        &["value = (value & 15) | (hdr.d.a + 1) | (value + 2); rv = 0;"],
        Refused("more than one operation"),
    ),
    // Conditions.
    word("one_comparison", &["rv = value; if (value == hdr.d.a) { value = 0; }"], Fits),
    word(
        "other_branch",
        &["rv = value; if (value == 0) { value = hdr.d.a; } else { value = value + 1; }"],
        Fits,
    ),
    word(
        "two_comparisons",
        &[
            "rv = value; if (value == hdr.d.a) { value = 0; } else if (value == 0) { value = hdr.d.a; }",
        ],
        Fits,
    ),
    word(
        "combined",
        &["rv = value; if (value == 0 || value == hdr.d.a) { value = hdr.d.b; }"],
        Fits,
    ),
    word(
        "negated_comparison",
        &["rv = 0; if (value == 0) { value = 1; } if (value != 0) { rv = 1; }"],
        Stricter("as it was, not its new value"),
    ),
    word(
        "same_comparison",
        &["rv = 0; if (value != 0) { rv = value; } if (value == 0) { value = hdr.d.a; }"],
        Fits,
    ),
    word(
        "three_comparisons",
        &["rv = value; if (value == hdr.d.a || value == 1 || value == 2) { value = 0; }"],
        Refused("one comparison more than"),
    ),
    word("packet_comparison", &["rv = value; if (hdr.d.b == 3) { value = hdr.d.a; }"], Fits),
    word("sum_comparison", &["rv = value; if (value - hdr.d.a > 5) { value = hdr.d.a; }"], Fits),
    word(
        "signed_comparison",
        &["rv = value; if ((int<32>)(value - hdr.d.a) > 0) { value = hdr.d.a; }"],
        Fits,
    ),
    word(
        "two_inputs_compared",
        &["rv = value; if (hdr.d.a == hdr.d.b) { value = 0; }"],
        Refused("one word of the packet, not two"),
    ),
    pair(
        "words_compared",
        &["rv = value.lo; if (value.lo == value.hi) { value.lo = 0; }"],
        Refused("one word of the cell, not two"),
    ),
    word(
        "masked",
        &["rv = value; if (value & 255 == hdr.d.a) { value = 0; }"],
        Refused("without a mask"),
    ),
    word(
        "sliced",
        &["rv = value; if (value[7:0] == hdr.d.e) { value = 0; }"],
        Refused("not bits of them"),
    ),
    word(
        "unsigned_large",
        &["rv = value; if (value > 0xc0000000) { value = 0; }"],
        Refused("out of their range"),
    ),
    pair(
        "both_words",
        &[
            "rv = 0; if (value.lo == hdr.d.a) { value.hi = value.hi + 1; rv = value.hi; } else { value.lo = hdr.d.a; value.hi = 0; }",
        ],
        Fits,
    ),
    word(
        "three_values",
        &[
            "rv = value; if (value == hdr.d.a) { value = 0; } else if (value == 0) { value = hdr.d.b; } else { value = value + 1; }",
        ],
        Refused("3 different operations"),
    ),
    word("dead_store", &["rv = value; value = value + 1; value = hdr.d.a;"], Fits),
    word(
        "overlapping",
        &["rv = value; if (value == hdr.d.a) { value = 1; } if (hdr.d.b == 0) { value = 2; }"],
        Stricter("assigned twice"),
    ),
    // Outputs.
    pair(
        "one_flag_on_two_paths",
        &[
            "if (value.lo > 0) { value.lo = value.lo - 1; rv = 1; } if (value.hi != hdr.d.a) { value.hi = hdr.d.a; rv = 1; }",
        ],
        Fits,
    ),
    word("old_value", &["rv = value; value = 0;"], Fits),
    word("new_value", &["value = hdr.d.a; rv = value;"], Fits),
    word("flag", &["rv = 0; if (value == hdr.d.a) { rv = 1; } value = hdr.d.a;"], Fits),
    word(
        "two_flags",
        &["if (value == hdr.d.a) { rv = 1; } else if (value == 0) { rv = 2; } else { rv = 0; }"],
        Fits,
    ),
    word(
        "three_flags",
        &["if (value == hdr.d.a) { rv = 1; } else if (value == 0) { rv = 2; } else { rv = 3; }"],
        Refused("3 different operations"),
    ),
    word("computed_output", &["rv = value + hdr.d.a; value = hdr.d.a;"], Fits),
    word("input_output", &["rv = hdr.d.a; value = value + 1;"], Fits),
    word(
        "choose_output",
        &["if (value == 0) { rv = hdr.d.a; value = hdr.d.a; } else { rv = value; }"],
        Refused("two different sources"),
    ),
    pair(
        "choose_word",
        &["if (value.lo == 0) { rv = value.lo; } else { rv = value.hi; } value.lo = hdr.d.a;"],
        Refused("two different sources"),
    ),
    pair(
        "pair_computed",
        &["rv = value.lo + hdr.d.a; value.hi = 1;"],
        Refused("both of the stateful ALU's adders"),
    ),
    pair("pair_flag", &["rv = 0; if (value.lo == hdr.d.a) { rv = 1; } value.lo = hdr.d.a;"], Fits),
    pair("pair_power", &["rv = 0; if (value.lo == hdr.d.a) { rv = 8; } value.lo = hdr.d.a;"], Fits),
    pair(
        "pair_constant",
        &["rv = 0; if (value.lo == hdr.d.a) { rv = 3; } value.lo = hdr.d.a;"],
        Refused("one power of two"),
    ),
    of(
        "predicate",
        "pair_t",
        "bit<4>",
        &["rv = this.predicate(value.lo == hdr.d.a, value.hi == 0); value.lo = hdr.d.a;"],
        Fits,
    ),
    word("read_output", &["rv = value; value = rv + 1;"], Fits),
    word("local", &["bit<32> old = value; value = hdr.d.a; rv = old;"], Fits),
    // Additional capabilities of the compiler.
    word("slice_out", &["rv = (bit<32>)value[15:8]; value = value + 1;"], Fits),
    of("narrow_out", "bit<32>", "bit<8>", &["rv = value[15:8]; value = value + 1;"], Fits),
    of(
        "two_slices",
        "bit<32>",
        "bit<8>",
        &["if (value == 0) { rv = value[7:0]; } else { rv = value[15:8]; }"],
        Refused("two different sources"),
    ),
    word("old_or_constant", &["if (value == 0) { rv = 1; } else { rv = value; }"], Fits),
    word(
        "old_or_operation",
        &["if (value == 0) { rv = value; } else { rv = value + hdr.d.a; }"],
        Refused("two different sources"),
    ),
    word("input_or_constant", &["if (value == 0) { rv = hdr.d.a; } else { rv = 1; }"], Fits),
    word(
        "constant_or_input",
        &["if (value == 0) { rv = 3; } else { rv = hdr.d.a; }"],
        Refused("two different sources"),
    ),
    word(
        "two_inputs_out",
        &["if (value == 0) { rv = hdr.d.a; } else { rv = hdr.d.b; }"],
        Refused("two different sources"),
    ),
    word(
        "new_or_constant",
        &["value = value + 1; if (hdr.d.b == 1) { rv = value; } else { rv = 1; }"],
        Refused("two different sources"),
    ),
    pair(
        "pair_flags",
        &[
            "rv = 0; if (value.lo == hdr.d.a) { rv = 1; } else if (value.hi == 0) { rv = 2; } value.lo = hdr.d.a;",
        ],
        Refused("two different sources"),
    ),
    pair(
        "pair_flag_or_word",
        &["if (value.lo == hdr.d.a) { rv = 1; } else { rv = value.hi; } value.lo = hdr.d.a;"],
        Refused("two different sources"),
    ),
    pair(
        "flags_of_two_actions",
        &[
            "rv = 0; if (value.lo == hdr.d.a) { rv = 1; } value.lo = hdr.d.a;",
            "rv = 0; if (value.hi == 0) { rv = 4; } value.hi = 1;",
        ],
        Refused("different powers of two"),
    ),
    word(
        "equal_large",
        &["rv = value; if (value == 0xc0000000) { value = 0; }"],
        Refused("out of their range"),
    ),
    word("equal_largest", &["rv = value; if (value == 0x80000000) { value = 0; }"], Fits),
    word(
        "chosen_store",
        &["rv = 0; value = hdr.d.b == 1 ? hdr.d.a : value + 1;"],
        Refused("`? :`"),
    ),
    word("chosen_output", &["rv = value == hdr.d.a ? 32w1 : 32w0; value = hdr.d.a;"], Fits),
    word(
        "default_local",
        &["bit<32> x = 1; if (hdr.d.b == 1) { x = hdr.d.a; } rv = value; value = value + x;"],
        Refused("one value on all paths"),
    ),
    word("computed_local", &["bit<32> x = value + hdr.d.a; rv = x; value = x;"], Fits),
    word(
        "local_condition",
        &["bool x = value == hdr.d.a; rv = value; if (x) { value = 0; }"],
        Fits,
    ),
    pair("pair_list", &["rv = value.lo; value = { value.lo, 7 };"], Fits),
    pair(
        "swap_in_turn",
        &["bit<32> old = value.lo; value.lo = value.hi; value.hi = old; rv = old;"],
        Fits,
    ),
    word(
        "both_complemented",
        &["rv = value; value = ~value & ~hdr.d.a;"],
        Stricter("more than one operation"),
    ),
    word("validity", &["rv = value; if (hdr.g.isValid()) { value = 0; }"], Fits),
    word(
        "or_of_three_paths",
        &[
            "rv = 0; if (value == 0 && hdr.d.b == 1) { value = hdr.d.a | (value + 1); } else if (value == 0) { value = hdr.d.a; } else if (hdr.d.b == 1) { value = value + 1; }",
        ],
        Fits,
    ),
    word(
        "inputs_mixed",
        &["rv = value; value = value ^ (hdr.d.a ^ hdr.d.b);"],
        Refused("more than one operation"),
    ),
    of(
        "too_wide",
        "bit<8>",
        "bit<8>",
        &["rv = value; if ((bit<32>)value == hdr.d.a) { value = 0; }"],
        Refused("too much for a comparison"),
    ),
    of("wide_constant", "bit<8>", "bit<32>", &["rv = 300; value = 1;"], Refused("32 bits, but")),
    // Resources that all actions of a register share.
    word(
        "four_actions",
        &[
            "value = 0; rv = 0;",
            "value = value + 1; rv = value;",
            "rv = value; value = hdr.d.a;",
            "rv = value;",
        ],
        Fits,
    ),
    word(
        "five_actions",
        &[
            "value = 0; rv = 0;",
            "value = value + 1; rv = value;",
            "rv = value; value = hdr.d.a;",
            "rv = value;",
            "value = value - 1; rv = value;",
        ],
        Refused("5 register actions"),
    ),
    word("two_inputs", &["rv = value; if (value == hdr.d.a) { value = hdr.d.b; }"], Fits),
    word(
        "three_inputs",
        &[
            "rv = value; value = hdr.d.a;",
            "rv = value; value = hdr.d.b;",
            "rv = value; value = md.m ^ 1;",
        ],
        Refused(""),
    ),
    word(
        "four_constants",
        &[
            "rv = value; value = value + 100;",
            "rv = value; value = value + 200;",
            "rv = value; value = value + 300;",
            "rv = value; value = value + 400;",
        ],
        Fits,
    ),
    word(
        "five_constants",
        &[
            "rv = value; value = value + 100;",
            "rv = value; value = value + 200;",
            "rv = value; value = value + 300;",
            "if (value == 1000) { value = value + 400; } rv = 0;",
        ],
        Refused("5 different constants"),
    ),
];
