use proptest::prelude::*;

use super::*;

fn subjects() -> Vec<Subject> {
    let kinds = [
        ("e", MatchKind::Exact),
        ("hdr.ip.t", MatchKind::Ternary),
        ("o", MatchKind::Optional),
        ("l", MatchKind::Lpm),
        ("r", MatchKind::Range),
    ];
    kinds.into_iter().filter_map(|(name, kind)| Subject::key(name, kind, 8)).collect()
}

fn restriction(text: &str) -> Result<Option<Restriction>, String> {
    let annotations = ["@name(\"x\")".to_owned(), format!("@entry_restriction(\"{text}\")")];
    Restriction::of(&annotations, "@entry_restriction", subjects)
}

/// Whether the entry 5, 3 &&& 7, 9, 0xf0/4, 2..6 with priority 10 fulfils a restriction.
fn holds(text: &str) -> bool {
    let value = |number: u64| Value::from(number);
    let matches = [
        KeyMatch::Exact(value(5)),
        KeyMatch::Ternary { value: value(3), mask: value(7) },
        KeyMatch::Optional(Some(value(9))),
        KeyMatch::Lpm { value: value(0xf0), prefix_len: 4 },
        KeyMatch::Range { low: value(2), high: value(6) },
    ];
    let parsed = restriction(text).unwrap_or_else(|error| panic!("{text}: {error}")).unwrap();
    parsed.violated_by_entry(&matches, 10).is_none()
}

#[test]
fn conditions_about_all_kinds_of_keys() {
    for yes in [
        "true",
        "e == 5",
        "e != 6; e::value == 0x05;",
        "5 == e && 4 < e && e <= 5 && e >= 0b101",
        "hdr.ip.t::mask == 7 && hdr.ip.t::value == 3",
        "hdr.ip.t != 3 // the mask is not all ones",
        "/* all */ o == 9; o::mask == -1; o::mask == 255",
        "l::prefix_length == 4; l::value == 0xf0; l != 0xf0",
        "r::low == 2 && r::high == 6",
        "::priority < 0x7fffffff; ::priority == 10; -::priority == -10",
        "e == 6 -> false",
        "e == 6 || e == 5 && true",
        "!(e == 6) -> !!true",
        "(true != false) == true",
        "e == 261 // wraps around, as a cast does",
        "l::prefix_length != 260",
        "e < ipv4('0.0.0.6'); e != ipv6('::6'); e != mac('00:00:00:00:00:06')",
        "true -> (true -> true)",
        "(e == 5; o == 9) && (e == 5;); !(e == 6; e == 5)",
        "e == o::value || e::value < o::value",
    ] {
        assert!(holds(yes), "{yes}");
    }
    for no in [
        "false",
        "e == 6",
        "e == 5; e == 6",
        "hdr.ip.t == 3",
        "o == 8",
        "r == 2",
        "::priority > 10",
        "e == 5 -> e == 6",
        "true || true && false -> false",
        "!(e == 5)",
        "e::value == r::high",
    ] {
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn errors_name_their_place() {
    for (text, error) in [
        ("", "it has no condition"),
        ("e", "1:1: a condition is needed, not an exact match of 8 bits"),
        ("e == ", "1:6: expected a value, not the end"),
        ("true\n  && x == 1", "2:6: there is no `x`"),
        ("e::mask == 1", "1:4: `e` is an exact match of 8 bits: it has no `mask`"),
        ("e == true", "1:3: an exact match of 8 bits and a condition cannot be compared"),
        ("hdr.ip.t < 5", "1:10: a ternary match of 8 bits has no order"),
        ("true < false", "1:6: a condition has no order"),
        (
            "o == hdr.ip.t",
            "1:3: an optional match of 8 bits and a ternary match of 8 bits cannot be compared",
        ),
        ("1 == 2 == 3", "1:3: two comparisons in a row: use parentheses"),
        ("true -> true -> true", "1:6: `->` twice: use parentheses"),
        ("true true", "1:6: expected `;`, not `true`"),
        ("(e == 5", "1:8: expected `)`, not the end"),
        ("e == 0b12", "1:6: `0b12` is not a number"),
        ("e == ipv4('1.2.3')", "1:11: '1.2.3' is not an address of this kind"),
        ("e == mac('1:2:3:4:5:6')", "1:10: '1:2:3:4:5:6' is not an address of this kind"),
        ("::length == 1", "1:3: expected `priority`, not `length`"),
        ("!e", "1:1: a condition is needed, not an exact match of 8 bits"),
        ("-true == 1", "1:1: a number is needed, not a condition"),
        ("e && true", "1:3: conditions are needed, not an exact match of 8 bits"),
        ("e == 5 # 1", "1:8: `#` has no meaning here"),
        ("true /* open", "1:6: a comment without an end"),
    ] {
        assert_eq!(
            restriction(text).unwrap_err(),
            format!("@entry_restriction: {error}"),
            "{text}"
        );
    }
    let deep = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
    assert!(restriction(&deep).unwrap_err().contains("nested more than 100 deep"));
    let long = vec!["true"; 2000].join(" && ");
    assert!(restriction(&long).unwrap_err().contains("more than 1000 joined conditions"));
    let huge = " ".repeat(1 << 17);
    assert_eq!(restriction(&huge).unwrap_err(), "@entry_restriction: it has more than 65536 bytes");
    let annotation = "@entry_restriction(5)".to_owned();
    let wrong = Restriction::of(&[annotation], "@entry_restriction", subjects);
    assert_eq!(wrong.unwrap_err(), "@entry_restriction needs a string");
    let other = "@entry_restrictions(\"false\")".to_owned();
    assert!(Restriction::of(&[other], "@entry_restriction", subjects).unwrap().is_none());
    let of_action = "@action_restriction(\"::priority > 0\")".to_owned();
    let wrong = Restriction::of(&[of_action], "@action_restriction", subjects);
    assert_eq!(
        wrong.unwrap_err(),
        "@action_restriction: 1:3: calls of an action have no attributes"
    );
}

/// What is violated is told without comments and line breaks.
#[test]
fn the_violated_part_is_told() {
    let parsed = restriction("e == 5; // five\n  e\n  == 6").unwrap().unwrap();
    let rest = [
        KeyMatch::Ternary { value: Value::zero(), mask: Value::zero() },
        KeyMatch::Optional(None),
        KeyMatch::Lpm { value: Value::zero(), prefix_len: 0 },
        KeyMatch::Range { low: Value::zero(), high: Value::ones(8) },
    ];
    let matches: Vec<_> = std::iter::once(KeyMatch::Exact(Value::from(5u64))).chain(rest).collect();
    assert_eq!(parsed.violated_by_entry(&matches, 1), Some("e == 6"));
}

/// A random condition, and whether it holds for the entry of [`holds`].
fn condition() -> impl Strategy<Value = (String, bool)> {
    let numbers = [("e::value", 5), ("o::value", 9), ("r::low", 2), ("hdr.ip.t::mask", 7)];
    let compared = (0..numbers.len(), 0u64..12, 0usize..6).prop_map(move |(at, with, how)| {
        let (name, value) = numbers[at];
        let (sign, holds) = [
            ("==", value == with),
            ("!=", value != with),
            ("<", value < with),
            ("<=", value <= with),
            (">", value > with),
            (">=", value >= with),
        ][how];
        (format!("{name} {sign} {with}"), holds)
    });
    let leaf = prop_oneof![compared, any::<bool>().prop_map(|truth| (truth.to_string(), truth))];
    leaf.prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|(text, holds)| (format!("!({text})"), !holds)),
            (inner.clone(), inner.clone(), 0usize..4).prop_map(|((a, x), (b, y), how)| {
                let (sign, holds) =
                    [("&&", x && y), ("||", x || y), ("->", !x || y), ("==", x == y)][how];
                (format!("({a}) {sign} ({b})"), holds)
            }),
        ]
    })
}

proptest! {
    #[test]
    fn conditions_of_conditions((text, expected) in condition()) {
        prop_assert_eq!(holds(&text), expected, "{}", text);
    }

    #[test]
    fn no_text_breaks_the_parser(text in "[a-z0-9:;()!&|<>=. '/*-]{0,40}") {
        drop(restriction(&text));
    }
}
