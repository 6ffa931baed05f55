use super::*;

fn expand(text: &str) -> String {
    let (text, diagnostics) = run(&Sources::embedded(), "t.p4", text, &[]);
    assert!(diagnostics.is_empty(), "{diagnostics}");
    let lines: Vec<&str> = text.text.lines().filter(|l| !l.starts_with('#')).collect();
    lines.join("\n").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn errors(text: &str) -> Vec<String> {
    run(&Sources::embedded(), "t.p4", text, &[]).1.iter().map(ToString::to_string).collect()
}

#[test]
fn objects_and_functions() {
    assert_eq!(expand("#define A 1 + B\n#define B 2\nA;"), "1 + 2;");
    assert_eq!(expand("#define F(x, y) x * (y)\nF(a, (b, c));"), "a * ((b, c));");
    assert_eq!(expand("#define F() z\nF() F ( ) F;"), "z z F;");
    assert_eq!(expand("#define V(f, ...) f(__VA_ARGS__)\nV(g, 1, 2)"), "g(1, 2)");
}

#[test]
fn shifts_stay_in_one_piece() {
    assert_eq!(expand("#define HALF(x) x >> 1\nHALF(y) HALF(z);"), "y >> 1 z >> 1;");
    assert_eq!(
        expand("#define B bit<8>\n#define T(x) tuple<x>\nT(B) y > > 1"),
        "tuple<bit<8>> y > > 1"
    );
}

#[test]
fn a_macro_does_not_expand_in_itself() {
    assert_eq!(expand("#define x x + y\n#define y x\nx"), "x + x");
    assert_eq!(expand("#define f(a) f(a + 1)\nf(f(2))"), "f(f(2 + 1) + 1)");
}

#[test]
fn the_result_is_scanned_with_the_rest_of_the_line() {
    assert_eq!(expand("#define G(x) <x>\n#define F G\nF(1)"), "<1>");
}

#[test]
fn pasting_and_strings() {
    assert_eq!(expand("#define P(a, b) a##b\nP(val, 1) P(, q) P(q,)"), "val1 q q");
    // Operands of ## are not expanded first, but the result is.
    assert_eq!(expand("#define ONE 1\n#define P(a, b) a##b\nP(ON, E) P(ONE, 2)"), "1 ONE2");
    assert_eq!(expand("#define S(a) #a\nS(x + \"y\\n\")"), r#""x + \"y\\n\"""#);
}

#[test]
fn x_macros_repeat_fields() {
    let text = "#define FIELDS(X) X(0) \\\n  X(1) \\\n  X(2)\n#define DECLARE(i) bit<32> value_##i;\nFIELDS(DECLARE)";
    assert_eq!(expand(text), "bit<32> value_0; bit<32> value_1; bit<32> value_2;");
}

#[test]
fn doubling_reaches_thousands() {
    let mut text = String::from("#define R1(X, i) X(i)\n");
    for n in 1..12 {
        let (a, b) = (1 << n, 1 << (n - 1));
        text += &format!("#define R{a}(X, i) R{b}(X, i##0) R{b}(X, i##1)\n");
    }
    text += "#define X(i) register r##i;\nR2048(X, b)";
    assert_eq!(expand(&text).matches("register").count(), 2048);
}

#[test]
fn arguments_over_several_lines_keep_line_numbers() {
    let source = "#define F(a, b) a b\nF(1,\n  2)\nlast";
    let (text, _) = run(&Sources::embedded(), "t.p4", source, &[]);
    let last = text.text.find("last").unwrap();
    assert_eq!(text.locate(crate::source::Span::new(last, last + 4)), ("t.p4", 4));
}

#[test]
fn conditions() {
    assert_eq!(expand("#define A 3\n#if A > 2 && !defined(B)\nyes\n#else\nno\n#endif"), "yes");
    assert_eq!(expand("#if 0\na\n#elif 1\nb\n#elif 1\nc\n#else\nd\n#endif"), "b");
    assert_eq!(expand("#ifdef A\n#if 1\nx\n#endif\ny\n#else\nz\n#endif"), "z");
    assert_eq!(
        expand("#if (1 ? 2 : 0) == 2 && 0x10 >> 2 == 4 && -1 < 0 && 5 % 3 == 2\nx\n#endif"),
        "x"
    );
    assert_eq!(expand("#define E\n#undef E\n#ifndef E\nx\n#endif"), "x");
    // Skipped text need not be valid.
    assert_eq!(expand("#if 0\n#error no\n#nonsense\n' \n#endif\nx"), "x");
}

#[test]
fn comments_are_blank_but_strings_are_not() {
    assert_eq!(expand("a /* b\n c */ d // e\n\"/* f */\""), "a d \"/* f */\"");
}

#[test]
fn strings_of_several_lines_keep_what_looks_like_comments() {
    let text = "@a(\"\n  // no comment\n  /* nor\n this\n\") x; // one\n@b(1, // c\n \"\n// d\n\")";
    let want = "@a(\" // no comment /* nor this \") x; @b(1, \" // d \")";
    assert_eq!(expand(text), want);
    // A quotation mark in other text ends with its line.
    assert_eq!(expand("#if 0\n#error (5\" // no\n#endif\nx /* y */ z"), "x z");
}

#[test]
fn mistakes_are_located() {
    for (text, want) in [
        ("\n#error stop", "t.p4:2:1: error: #error stop"),
        ("#if 1\n", "t.p4:1:1: error: `#if` without `#endif`"),
        ("x\n#endif", "t.p4:2:1: error: `#endif` without `#if`"),
        ("#else", "t.p4:1:1: error: `#else` without `#if`"),
        ("#if 1\n#else\n#else\n#endif", "t.p4:3:1: error: `#else` after `#else`"),
        ("  #include \"no.p4\"", "t.p4:1:3: error: cannot find `no.p4`"),
        (
            "#define F(a) a\nF(1, 2)",
            "t.p4:2:1: error: macro `F` takes 1 arguments, but 2 are given",
        ),
        (
            "#define F(a) a\nF(1",
            "t.p4:2:1: error: the arguments of macro `F` have no closing parenthesis",
        ),
        ("#if 1 / 0\n#endif", "t.p4:1:1: error: division by zero in the condition"),
        ("/* x", "t.p4:1:1: error: comment has no end"),
        ("#frobnicate", "t.p4:1:1: error: unknown directive `#frobnicate`"),
    ] {
        assert_eq!(errors(text), [want], "for {text:?}");
    }
}

#[test]
fn redefinition_warns_only_if_it_differs() {
    assert!(errors("#define A 1\n#define A 1").is_empty());
    assert_eq!(errors("#define A 1\n#define A 2").len(), 1);
}

#[test]
fn files_include_each_other_once() {
    let guard = |name: &str, other: &str| {
        format!("#ifndef {name}\n#define {name}\n#include \"{other}\"\n{name}_body\n#endif\n")
    };
    let sources = Sources::embedded()
        .embed("d/a.p4", guard("A", "sub/b.p4"))
        .embed("d/sub/b.p4", guard("B", "../a.p4"));
    let text = crate::preprocess(&sources, "d/a.p4", &[]).unwrap();
    assert_eq!(text.matches("A_body").count() + text.matches("B_body").count(), 2);
    // A_body: the macro is empty, so only the text after it remains.
    assert!(text.contains("# 4 \"d/sub/b.p4\"") || text.contains("\"d/sub/b.p4\""), "{text}");
}

#[test]
fn endless_recursion_ends() {
    let sources = Sources::embedded().embed("a.p4", "#include \"a.p4\"\n");
    assert!(crate::preprocess(&sources, "a.p4", &[]).is_err());
    let mut bomb = String::from("#define M0(x) x x\n");
    for i in 1..40 {
        bomb += &format!("#define M{i}(x) M{}(M{}(x))\n", i - 1, i - 1);
    }
    let sources = Sources::embedded().embed("bomb.p4", bomb + "M39(1)");
    assert!(crate::preprocess(&sources, "bomb.p4", &[]).is_err());
}

#[test]
fn preprocessing_is_idempotent() {
    let sources = Sources::embedded()
        .embed(
            "m.p4",
            "#define N 3\n#include \"i.p4\"\nint after;\n\n\n\n\n\n\n\n\n\nbit<N> far;\n",
        )
        .embed("i.p4", "const bit<8> X = N;\n");
    let once = crate::preprocess(&sources, "m.p4", &[]).unwrap();
    let (twice, diagnostics) = run(&Sources::embedded(), "m.p4", &once, &[]);
    assert!(diagnostics.is_empty(), "{diagnostics}");
    for (word, place) in [("X", ("i.p4", 1)), ("after", ("m.p4", 3)), ("far", ("m.p4", 13))] {
        let at = twice.text.find(word).unwrap();
        assert_eq!(twice.locate(crate::source::Span::new(at, at + 1)), place);
    }
}

#[test]
fn predefined_macros() {
    let (text, _) = run(&Sources::embedded(), "t.p4", "bit<W> x;", &[("W".into(), "16".into())]);
    assert!(text.text.contains("bit<16> x;"), "{}", text.text);
}
