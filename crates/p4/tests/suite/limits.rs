//! Small texts that would take minutes or gigabytes: each ends with one clear error, in time.

use std::fmt::Write as _;
use std::time::Duration;

use tributary_p4::{Diagnostics, Sources, compile, compile_text};

/// Limits of a compilation in a development build.
const TIME: Duration = Duration::from_secs(5);
const MEMORY_KIB: u64 = 1 << 20;

/// Maximum size of all rendered diagnostics together.
const OUTPUT: usize = 200_000;

/// Processor time of this process. Under nextest it is that of the test.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Peak memory of this process.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Compiles within the limits.
fn bounded<T>(what: &str, f: impl FnOnce() -> Result<T, Diagnostics>) -> Result<T, Diagnostics> {
    let before = processor_time();
    let result = f();
    let (time, peak) = (processor_time() - before, peak_kib());
    println!("{what}: {time:?}, {} MiB", peak >> 10);
    if let Err(diagnostics) = &result {
        let text = diagnostics.render(false);
        println!("{}", &text[..text.floor_char_boundary(600)]);
        assert!(text.len() < OUTPUT, "{what}: {} bytes of errors", text.len());
    }
    assert!(time < TIME, "{what}: {time:?}");
    assert!(peak < MEMORY_KIB, "{what}: {peak} KiB");
    result
}

/// The last error contains these words and a help text.
fn refuses(text: &str, words: &str) {
    refused(words, || compile_text("t.p4", text, &[]));
}

fn refused<T>(words: &str, f: impl FnOnce() -> Result<T, Diagnostics>) {
    let Err(diagnostics) = bounded(words, f) else { panic!("{words}: it compiles") };
    let last = diagnostics.iter().last().unwrap();
    assert!(last.message.contains(words), "{words}: {last}");
    assert!(last.help.is_some() && last.line > 0, "{words}: {last:?}");
}

/// Generates lines from numbers starting at 1.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (1..=count).map(|i| line(i) + "\n").collect()
}

fn in_apply(statements: &str) -> String {
    crate::common::program("", "", statements)
}

const ENDLESS: &str = "the program is too large";

#[test]
fn several_indices_known_at_run_time_only() {
    let access = "meta.z = a[meta.x][meta.y][meta.z];";
    let program = |count| in_apply(&("bit<8>[32][32][32] a;\n".to_owned() + &access.repeat(count)));
    refuses(&program(5000), ENDLESS);
    bounded("a hundred accesses", || compile_text("t.p4", &program(100), &[])).unwrap();
}

const WORDS: [&str; 64] = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ";",
    ",",
    ".",
    ":",
    "=",
    "+",
    "*",
    "<<",
    "++",
    "?",
    "!",
    "@",
    "&&&",
    "..",
    "...",
    "{#}",
    "\"",
    "/*",
    "*/",
    "\n#define A A B\n",
    "\n#define B(x) x x\n",
    "\n#if 1\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#include \"t\"\n",
    " A ",
    " B(",
    "1",
    "8w255",
    "-",
    "bit<8>",
    "bit<",
    "int ",
    "varbit<",
    "tuple<",
    "list<",
    "const int c = ",
    "struct s { ",
    "header h { ",
    "a",
    " x ",
    "meta.x",
    "hdr.s",
    "if (",
    " else ",
    "switch (",
    "default: ",
    "for (",
    "return ",
    "apply ",
    "control C(",
    "action a(",
    "table t { ",
    "select(",
    "transition ",
    "void f(",
];

/// Words in any order, with repeated sequences. A pair of bytes with an odd first byte repeats the
/// preceding words: half of the first byte is their number, the square of the second byte the
/// number of repetitions.
fn soup(input: &[u8]) -> String {
    let mut words: Vec<&str> = Vec::new();
    for pair in input.chunks_exact(2) {
        if pair[0] % 2 == 0 {
            words.extend([WORDS[usize::from(pair[0] / 4)], WORDS[usize::from(pair[1] / 4)]]);
            continue;
        }
        let stretch =
            words[words.len() - (usize::from(pair[0] / 2) % 16).min(words.len())..].to_vec();
        for _ in 0..usize::from(pair[1]).pow(2) {
            if words.len() < 200_000 {
                words.extend(&stretch);
            }
        }
    }
    words.concat()
}

/// `cargo bolero test -p tributary-p4 limits::fuzz_token_soup` runs a fuzzer.
#[test]
fn fuzz_token_soup() {
    bolero::check!().for_each(|input: &[u8]| {
        let soup = soup(input);
        for text in [soup.clone(), in_apply(&soup)] {
            let sources = Sources::embedded().embed("t", text);
            let before = processor_time();
            let result = compile(&sources, "t", &[]);
            let time = processor_time() - before;
            assert!(time < TIME, "{time:?}");
            if let Err(diagnostics) = result {
                assert!(diagnostics.render(false).len() < OUTPUT);
            }
        }
        assert!(peak_kib() < MEMORY_KIB);
    });
}

#[test]
fn macros_and_includes_are_bounded() {
    let calls = |n| format!("#define F(x) x\nconst int a = {}1{};", "F(".repeat(n), ")".repeat(n));
    refuses(&calls(1000), "more than 200 calls of macros inside one another");
    refuses(&calls(50_000), "macros produce more than");
    let bomb = format!(
        "#define M0 1 +\n{}const int a = M40 1;",
        lines(40, |i| format!("#define M{i} M{0} M{0}", i - 1))
    );
    refuses(&bomb, "macros produce more than");
    let bomb = format!(
        "#define M0(x) x x\n{}const int a = M40(1);",
        lines(40, |i| format!("#define M{i}(x) M{0}(x) M{0}(x)", i - 1))
    );
    refuses(&bomb, "macros produce more than");
    let chain = format!(
        "#define M0 1\n{}const int a = M50000;",
        lines(50_000, |i| format!("#define M{i} M{}", i - 1))
    );
    refuses(&chain, "more than 200 macros inside one another");
    let paste = format!(
        "#define P(a, b) a ## b\n#define Q(x) P(x, x)\n{}M40",
        "#define M0 a\n".to_owned() + &lines(40, |i| format!("#define M{i} Q(M{})", i - 1))
    );
    drop(bounded("token pasting", || compile_text("t.p4", &paste, &[])));
    let paste = format!(
        "#define P(a, b) a ## b\n#define M0(x) x\n{}M40(a)",
        lines(40, |i| format!("#define M{i}(x) M{0}(P(x, x))", i - 1))
    );
    refuses(&paste, "`##` makes a name of more than");
    let text = lines(40, |i| format!("#define M{i} M{0} M{0}", i - 1))
        + "#define S(x) #x\n#define T(x) S(x)\n#define M0 \"\\\\\"\nT(M40)";
    refuses(&text, "macros produce more than");

    let ifs = "#if 1\n".repeat(200_000);
    refuses(&ifs, "more than 256 `#if`s inside one another");
    let condition = format!("#if {}\n#endif", "1 ? 1 : ".repeat(50_000) + "1");
    drop(bounded("a long condition", || compile_text("t.p4", &condition, &[])).err().unwrap());

    let twice = |i: usize| format!("#include \"f{}\"\n", i + 1).repeat(2);
    let sources = (0..24).fold(Sources::embedded(), |all, i| all.embed(format!("f{i}"), twice(i)));
    let sources = sources.embed("f24", "");
    refused("more than 4096 files are included", || compile(&sources, "f0", &[]));
    let sources = Sources::embedded().embed("self", "#include \"self\"\n");
    refused("`self` is included 64 files deep", || compile(&sources, "self", &[]));
    let long = "x".repeat(1 << 20) + "\n";
    let many =
        Sources::embedded().embed("long", long).embed("m", "#include \"long\"\n".repeat(100));
    refused("the program has more than", || compile(&many, "m", &[]));
    let blank = " ".repeat(1 << 20) + "\n";
    let many =
        Sources::embedded().embed("long", blank).embed("m", "#include \"long\"\n".repeat(100));
    refused("the program and what it includes have more than", || compile(&many, "m", &[]));
}

#[test]
fn output_is_bounded() {
    refuses(&"x y;\n".repeat(50_000), "there are more than 100 errors");
    refuses(&"$ ".repeat(50_000), "there are more than 100 errors");
    refuses(&"#nonsense\n".repeat(50_000), "there are more than 100 errors");
    refuses(
        &in_apply(&lines(10_000, |i| format!("meta.x = missing{i};"))),
        "there are more than 100 errors",
    );
    let line = format!("const int a = {}b;", "1 + ".repeat(250_000));
    refuses(&line, "in a row");
    let line = format!("const bit<8> a = b; /* {} */", "x".repeat(1 << 20));
    let error = bounded("a line of 1 MB", || compile_text("t.p4", &line, &[])).unwrap_err();
    assert!(error.render(false).len() < 1000);
    let error = bounded("an #error of 1 MB", || {
        compile_text("t.p4", &format!("#error {}", "x".repeat(1 << 20)), &[])
    })
    .unwrap_err();
    assert!(error.render(false).len() < 4000, "{}", error.render(false).len());
    refuses(&format!("const int {} = 1;", "a".repeat(1 << 20)), "a name of more than 1024 bytes");
    let warnings = lines(50_000, |_| "#warning again".to_owned());
    bounded("many warnings", || compile_text("t.p4", &warnings, &[])).unwrap();
    let warnings = in_apply(&lines(3_000, |i| format!("meta.z = 8w{};", i + 1000)));
    let done = bounded("more warnings", || compile_text("t.p4", &warnings, &[])).unwrap();
    assert!(done.warnings.len() <= 100);
    let names = lines(20_000, |i| format!("const int a{i:038} = 1;"));
    let uses = in_apply(&lines(200, |i| format!("meta.x = b{i:038};")));
    refuses(&(names + &uses), "there are more than 100 errors");
    for open in ["/* ", "\"", "\"\\\"", "@a(", "@a[", "@a(@b("] {
        let text = open.repeat(100_000);
        bounded(open, || compile_text("t.p4", &text, &[])).err().unwrap();
    }
    let markers = lines(50_000, |i| format!("# 1 \"f{i}\""));
    drop(bounded("markers", || compile_text("t.p4", &markers, &[])));
}

#[test]
fn nesting_is_bounded() {
    let deep = "more than 120 levels";
    refuses(&in_apply(&format!("meta.x = {}1{};", "(".repeat(50_000), ")".repeat(50_000))), deep);
    refuses(&in_apply(&format!("meta.x = {}1;", "meta.flag ? 1 : ".repeat(50_000))), "in a row");
    refuses(
        &in_apply(&format!("meta.x = {}1{};", "meta.flag ? ".repeat(50_000), ": 1".repeat(50_000))),
        deep,
    );
    refuses(&in_apply(&format!("{}{{}}", "if (meta.flag) {} else ".repeat(50_000))), deep);
    refuses(&in_apply(&("{".repeat(50_000) + &"}".repeat(50_000))), deep);
    refuses(&in_apply(&format!("meta.x = meta{};", ".x".repeat(500_000))), "in a row");
    refuses(&in_apply(&format!("meta.x = meta{};", "[0]".repeat(300_000))), "in a row");
    refuses(&format!("struct s {{ bit<8> a{}; }}", "[1]".repeat(300_000)), "in a row");
    refuses(&format!("struct s {{ bit<8>{} a; }}", "[1]".repeat(300_000)), "in a row");
    refuses(&in_apply(&format!("meta.x = {}", "(bit<(".repeat(50))), deep);
    let both = (0..100).fold("1".to_owned(), |inner, _| format!("({inner}{})", " + 1".repeat(500)));
    refuses(&format!("const int a = {both};"), "in a row");
    refuses(&format!("#include <v1model.p4>\nconst {} x = 1;", "tuple<".repeat(50_000)), deep);
    // Alternatives that are tried and rejected, at each level.
    for open in ["(bit<(", "f<bit<(", "(list<", "(tuple<bit<("] {
        let text = in_apply(&format!("meta.x = {}", open.repeat(28)));
        bounded(open, || compile_text("t.p4", &text, &[])).err().unwrap();
    }
    // Labels before `default` doubled the body at each level.
    let switch = (0..50).fold("{ meta.x = 1; }".to_owned(), |inner, _| {
        format!("{{ switch (meta.z) {{ 1: default: {inner} }} }}")
    });
    bounded("nested switches", || compile_text("t.p4", &in_apply(&switch), &[])).unwrap();
    let switch = (0..50).fold("{ meta.x = 1; }".to_owned(), |inner, _| {
        format!("{{ switch (meta.z) {{ 1: 2: {inner} }} }}")
    });
    refuses(&in_apply(&switch), ENDLESS);
}

#[test]
fn structs_without_fields_are_not_free() {
    let types = format!(
        "struct none_t {{ }} struct pair_t {{ none_t a; none_t b; }}
struct wide_t {{ {} }}",
        lines(60_000, |i| format!("none_t x{i};"))
    );
    let program = |locals: &str, apply: &str| crate::common::program(&types, locals, apply);
    bounded("empty structs", || {
        compile_text(
            "t.p4",
            &program("pair_t a; pair_t b; wide_t w; wide_t v;", "a = b; w = v;"),
            &[],
        )
    })
    .unwrap();
    refuses(&program("wide_t w; wide_t v;", &"w = v;".repeat(5_000)), ENDLESS);
    refuses(&program(&lines(5_000, |i| format!("wide_t w{i};")), ""), ENDLESS);
}

#[test]
fn the_size_of_a_type_is_not_counted_at_each_access() {
    let types = format!(
        "struct large_t {{ {} }} struct outer_t {{ large_t large; bit<8> last; }}",
        lines(30_000, |i| format!("bit<0> x{i};"))
    );
    let accesses = "meta.z = a[meta.x].last;\n".repeat(50_000);
    let text = crate::common::program(&types, "outer_t[2] a;", &accesses);
    bounded("accesses behind a large struct", || compile_text("t.p4", &text, &[])).unwrap();
}

#[test]
fn types_and_values_are_bounded() {
    let doubling =
        |first: &str, each: &dyn Fn(usize) -> String| format!("{first}\n{}", lines(40, each));
    let structs = doubling("struct s0 { bit<8> a; }", &|i| {
        format!("struct s{i} {{ s{0} a; s{0} b; }}", i - 1)
    });
    refuses(&structs, "values: it may have 65536");
    let empty = doubling("struct s0 { }", &|i| format!("struct s{i} {{ s{0} a; s{0} b; }}", i - 1));
    refuses(&empty, "values: it may have 65536");
    let tuples =
        doubling("typedef bit<8> t0;", &|i| format!("typedef tuple<t{0}, t{0}> t{i};", i - 1));
    refuses(&tuples, "values: it may have 65536");
    let generics = doubling("typedef bit<8> t0;", &|i| {
        format!("struct g{i}<A, B> {{ A a; B b; }} typedef g{i}<t{0}, t{0}> t{i};", i - 1)
    });
    refuses(&generics, "a type with a name of more than");
    let stacks = doubling("header h { bit<8> a; }\nstruct s0 { h[2] a; }", &|i| {
        format!("struct s{i} {{ s{0} a; s{0} b; }}", i - 1)
    });
    refuses(&stacks, "values: it may have 65536");
    refuses(
        "header h { bit<8> a; bit<8> b; }\nstruct s { h[65536] a; }",
        "values: it may have 65536",
    );
    refuses(
        &("struct s0 { bit<8> a; }\n".to_owned()
            + &lines(50_000, |i| format!("struct s{i} {{ s{} a; }}", i - 1))),
        "more than 64 types inside one another",
    );
    refuses(
        &("typedef bit<8> n0;\n".to_owned() + &lines(50_000, |i| format!("type n{} n{i};", i - 1))),
        "more than 64 types inside one another",
    );
    let chain = "struct g0<T> { T a; }\n".to_owned()
        + &lines(50_000, |i| format!("struct g{i}<T> {{ g{}<T> a; }}", i - 1))
        + "const g50000<bit<8>> x = {};";
    refuses(&chain, "inside one another");
    let calls = "#include <v1model.p4>\nvoid f0<T>(in T x) {}\n".to_owned()
        + &lines(40, |i| format!("void f{i}<T>(in T x) {{ f{}({{ x, x }}); }}", i - 1));
    let calls = calls + "control C() { apply { f40(8w1); } }";
    refuses(&calls, "values: it may have 65536");

    refuses(
        &("const int c0 = 3;\n".to_owned()
            + &lines(60, |i| format!("const int c{i} = c{0} * c{0};", i - 1))),
        "bits: it may have 131072",
    );
    refuses(
        &("const int c0 = 1;\n".to_owned()
            + &lines(60, |i| format!("const int c{i} = c{} << 65536;", i - 1))),
        "bits: it may have 131072",
    );
    let many = "const int c = (1 << 65535) - 1;\n".to_owned()
        + &lines(50_000, |i| format!("const int d{i} = c * c;"));
    refuses(&many, ENDLESS);
    refuses(
        &("const string c0 = \"ab\";\n".to_owned()
            + &lines(60, |i| format!("const string c{i} = c{0} ++ c{0};", i - 1))),
        "a string of more than 65536 bytes",
    );
    let lists = "const tuple<bit<8>> c0 = { 1 };\n".to_owned()
        + &lines(40, |i| format!("const list<bit<8>> c{i} = {{ c{0}, c{0} }};", i - 1));
    bounded("constant lists", || compile_text("t.p4", &lists, &[])).err().unwrap();
    let wide = "const bit<65536> c = (1 << 65535) - 1;\n".to_owned()
        + &format!("const list<bit<65536>> l = {{ {} }};", "c, ".repeat(300_000));
    refuses(&wide, ENDLESS);
    let digits = format!("const int c = {};", "9".repeat(1 << 20));
    bounded("digits", || compile_text("t.p4", &digits, &[])).err().unwrap();
    for ty in ["bit<2000000000>", "int<4294967296>", "varbit<99999999999>", "bit<8>[4000000000]"] {
        bounded(ty, || compile_text("t.p4", &format!("struct s {{ {ty} a; }}"), &[]))
            .err()
            .unwrap();
    }
    let members = |i: usize| format!("E{i}, ");
    let errors = (0..100_000).map(members).collect::<String>();
    refuses(&format!("error {{ {errors} }}"), ENDLESS);
    let defaults = format!("bit<8>[60000] v; {}", "v = ...;".repeat(20_000));
    refuses(&in_apply(&defaults), ENDLESS);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn instances_and_calls_are_bounded() {
    let doubling = |first: &str, count: usize, each: &dyn Fn(usize) -> String| {
        format!("{first}\n{}", lines(count, each))
    };
    let program = |declarations: &str, locals: &str, apply: &str| {
        crate::common::program(declarations, locals, apply)
    };
    let controls = doubling("control c0(inout bit<32> x) { apply { x = x + 1; } }", 40, &|i| {
        let inner = i - 1;
        format!(
            "control c{i}(inout bit<32> x) {{ c{inner}() a; c{inner}() b; apply {{ a.apply(x); b.apply(x); }} }}"
        )
    });
    refuses(&program(&controls, "c40() c;", "c.apply(meta.x);"), ENDLESS);
    let controls = doubling("control c0(inout bit<32> x) { apply { } }", 40, &|i| {
        let inner = i - 1;
        format!(
            "control c{i}(inout bit<32> x) {{ apply {{ c{inner}.apply(x); c{inner}.apply(x); }} }}"
        )
    });
    refuses(&program(&controls, "c40() c;", "c.apply(meta.x);"), ENDLESS);
    let functions = doubling("void f0(inout bit<32> x) { x = x + 1; }", 40, &|i| {
        format!("void f{i}(inout bit<32> x) {{ f{0}(x); f{0}(x); }}", i - 1)
    });
    refuses(&program(&functions, "", "f40(meta.x);"), ENDLESS);
    let functions = doubling("void f0(inout bit<32> x) { x = x + 1; }", 20_000, &|i| {
        format!("void f{i}(inout bit<32> x) {{ f{}(x); }}", i - 1)
    });
    refuses(&program(&functions, "", "f20000(meta.x);"), "more than 128 functions");
    let actions = doubling("action a0(inout bit<32> x) { x = x + 1; }", 40, &|i| {
        format!("action a{i}(inout bit<32> x) {{ a{0}(x); a{0}(x); }}", i - 1)
    });
    refuses(&program(&actions, "", "a40(meta.x);"), ENDLESS);
    let actions =
        doubling("action a0() { }", 40, &|i| format!("action a{i}() {{ a{0}(); a{0}(); }}", i - 1));
    bounded("actions without arguments", || {
        compile_text("t.p4", &program(&actions, "", "a40();"), &[])
    })
    .unwrap();
    let actions =
        doubling("action a0() { }", 20_000, &|i| format!("action a{i}() {{ a{}(); }}", i - 1));
    refuses(&program(&actions, "", "a20000();"), "more than 128 functions");
    let parsers = doubling(
        "parser p0(packet_in p, inout h_t h) { state start { p.extract(h); transition accept; } }",
        40,
        &|i| {
            let inner = i - 1;
            format!(
                "parser p{i}(packet_in p, inout h_t h) {{ p{inner}() a; p{inner}() b; state start {{ a.apply(p, h); b.apply(p, h); transition accept; }} }}"
            )
        },
    );
    let text = program(&parsers, "", "").replace("P(), V()", "Q(), V()").replace(
        "V1Switch(",
        "parser Q(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { p40() a; state start { a.apply(p, hdr.h); transition accept; } }\nV1Switch(",
    );
    refuses(&text, ENDLESS);
    let loops = (0..12).fold("meta.x = meta.x + 1;".to_owned(), |inner, i| {
        format!("for (bit<8> i{i} in {{ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }}) {{ {inner} }}")
    });
    refuses(&in_apply(&loops), ENDLESS);
    let variables = lines(20_000, |i| format!("bit<32>[1000] v{i};"));
    refuses(&in_apply(&variables), "the variables of the program have more than");
    let wide = lines(5_000, |i| format!("bit<65536> v{i};"));
    refuses(&in_apply(&wide), "the variables of the program have more than");
    let index = "meta.x + ".repeat(1000) + "1";
    let element = format!("hdr.s[{index}] = hdr.s[{index}]; meta.x = hdr.s[{index}].a;");
    bounded("long index", || compile_text("t.p4", &in_apply(&element.repeat(20)), &[])).unwrap();
    let table = |n: usize| {
        let entries = lines(n, |i| format!("{i} : NoAction();"));
        program(
            "",
            &format!(
                "table t {{ key = {{ meta.x : exact; }} actions = {{ NoAction; }} const entries = {{ {entries} }} }}"
            ),
            "t.apply();",
        )
    };
    bounded("20 000 entries", || compile_text("t.p4", &table(20_000), &[])).unwrap();
    drop(bounded("100 000 entries", || compile_text("t.p4", &table(100_000), &[])));
    drop(bounded("300 000 entries", || compile_text("t.p4", &table(300_000), &[])));
    let mut states = String::new();
    for i in 0..50_000 {
        let _ = writeln!(
            states,
            "state s{i} {{ transition select(hdr.h.c) {{ 1: s{}; default: start; }} }}",
            (i + 1) % 50_000
        );
    }
    let text =
        program("", "", "").replacen("state start {", &format!("{states} state start {{"), 1);
    drop(bounded("50 000 states", || compile_text("t.p4", &text, &[])));
    let exits =
        (0..100).fold("exit;".to_owned(), |inner, _| format!("if (meta.flag) {{ {inner} }} exit;"));
    drop(bounded("exits", || compile_text("t.p4", &in_apply(&exits), &[])));
    let keys = format!(
        "table t {{ key = {{ {} : exact @name(\"k\"); }} actions = {{ NoAction; }} }}",
        "meta.x + ".repeat(3000) + "1"
    );
    drop(bounded("applied tables", || {
        compile_text("t.p4", &program("", &keys, &"t.apply();".repeat(3000)), &[])
    }));
}

#[test]
fn p4info_is_bounded() {
    let program = |locals: &str, apply: &str| crate::common::program("", locals, apply);
    for (what, each) in [
        ("registers", "register<bit<8>>(1)"),
        ("counters", "counter(1, CounterType.packets)"),
        ("meters", "meter(1, MeterType.packets)"),
        ("profiles", "action_profile(1)"),
    ] {
        let locals = lines(50_000, |i| format!("{each} o{i};"));
        bounded(what, || compile_text("t.p4", &program(&locals, ""), &[])).unwrap();
    }
    let sets = lines(50_000, |i| format!("value_set<bit<8>>(1) v{i};"));
    let sets = program("", "").replacen("state start {", &format!("{sets} state start {{"), 1);
    bounded("value sets", || compile_text("t.p4", &sets, &[])).unwrap();
    // Names that differ in their first components only.
    let declarations =
        "control K(inout meta_t m) { register<bit<8>>(1) r; direct_counter(CounterType.packets) d;
table t { key = { m.x : exact; } actions = { NoAction; } counters = d; } apply { t.apply(); } }";
    let instances = lines(20_000, |i| format!("K() k{i};"));
    let applied = lines(20_000, |i| format!("k{i}.apply(meta);"));
    let text = crate::common::program(declarations, &instances, &applied);
    let done = bounded("instances", || compile_text("t.p4", &text, &[])).unwrap();
    let alias = &done.p4info.registers[6].preamble.as_ref().unwrap().alias;
    assert_eq!(alias, "k7.r");
    let long = "a.".repeat(30_000);
    let tables =
        lines(60, |i| format!("@name(\"z{i}.{long}\") table t{i} {{ actions = {{ NoAction; }} }}"));
    let applied = lines(60, |i| format!("t{i}.apply();"));
    bounded("long names", || compile_text("t.p4", &program(&tables, &applied), &[])).unwrap();
    let wide = format!("struct w_t {{ {} }}", lines(50_000, |i| format!("bit<8> f{i};")));
    let registers = lines(10_000, |i| format!("register<w_t>(1) r{i};"));
    refuses(&crate::common::program(&wide, &registers, ""), ENDLESS);
}

#[test]
fn annotations_are_bounded() {
    let text = (0..150_000).fold(String::new(), |text, i| text + &format!("@a{i} "));
    bounded("annotations", || compile_text("t.p4", &(text + "const bit<8> x = 1;"), &[])).unwrap();
    let control = format!(
        "control K() {{ @a({}) register<bit<8>>(1) r; apply {{ }} }}",
        "x ".repeat(100_000)
    );
    let instances = lines(20_000, |i| format!("K() k{i};"));
    let applied = lines(20_000, |i| format!("k{i}.apply();"));
    refuses(&crate::common::program(&control, &instances, &applied), ENDLESS);
}

#[test]
fn header_unions_are_bounded() {
    let members = lines(5_000, |i| format!("tiny_t x{i};"));
    let union = format!("header tiny_t {{ bit<8> a; }}\nheader_union U {{ {members} }}");
    let program = |locals: &str, apply: &str| crate::common::program(&union, locals, apply);
    bounded("a stack of unions", || compile_text("t.p4", &program("U[13] u;", ""), &[])).unwrap();
    let stacks = "U[13] u; U[13] v; U[13] w;";
    bounded("stacks of unions", || compile_text("t.p4", &program(stacks, ""), &[])).unwrap();
    bounded("validity", || {
        compile_text("t.p4", &program("U[13] u;", "meta.flag = u[meta.x].isValid();"), &[])
    })
    .unwrap();
    let many = "if (u[meta.x].isValid()) { meta.x = 1; }".repeat(10_000);
    refuses(&program("U[13] u;", &many), ENDLESS);
    drop(bounded("copies", || {
        let copies = "u[0] = u[1]; u.pop_front(1); u[meta.x].x7.setValid();";
        compile_text("t.p4", &program("U[13] u;", copies), &[])
    }));
    let wide = format!("header wide_t {{ {} }}", lines(60_000, |i| format!("bit<8> f{i};")));
    bounded("a wide header", || {
        compile_text("t.p4", &crate::common::program(&wide, "wide_t a; wide_t b;", ""), &[])
    })
    .unwrap();
}
