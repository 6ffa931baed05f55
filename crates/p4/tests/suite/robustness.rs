//! Any text leads to errors, never to a panic, and compilation always ends.

use proptest::prelude::*;
use tributary_p4::{Sources, compile_text, preprocess};

const FORWARDER: &str = include_str!("../programs/l2.p4");

fn rich() -> String {
    crate::common::program(
        "enum bit<8> K { A = 1, B = 2 }
const bit<32> N = 4;
bit<32> twice(in bit<32> v) { return v + v; }
control S(inout h_t h, inout bit<32> acc)(bit<32> size) {
    register<bit<32>>(size) r;
    action add(bit<32> d) { bit<32> t; r.read(t, h.a); acc = t |+| d; r.write(h.a, acc); }
    table t { key = { h.c : ternary; h.a : lpm; } actions = { add; NoAction; } size = 64;
        const entries = { (1 &&& 3, 0x0a000000 &&& 0xff000000) : add(7); (_, _) : NoAction(); } }
    apply { if (t.apply().hit) { acc = acc + 1; } else { return; } }
}",
        "S(N) one; S(N * 2) two; direct_counter(CounterType.packets) c;
action drop() { mark_to_drop(sm); exit; }
table u { key = { meta.x[7:0] : exact; hdr.h.isValid() : exact; } actions = { drop; NoAction; } counters = c; }",
        "one.apply(hdr.h, meta.x); two.apply(hdr.g, meta.y);
switch (u.apply().action_run) { drop: { meta.z = K.A; } default: { meta.z = (bit<8>)K.B; } }
hash(meta.x, HashAlgorithm.crc32, 32w0, { hdr.h.a, hdr.h.b }, 32w16);
hdr.s[1] = hdr.h; hdr.s.push_front(1);
meta.x = (meta.flag ? twice(meta.y) : 5)[31:16] ++ hdr.h.a[15:0];",
    )
}

/// Register actions, requests, nested packages.
fn tofino() -> String {
    crate::tna::program(
        "header bridged_t { bit<8> x; bit<16> y; }
Register<pair_t, bit<16>>(16, { 1, 2 }) pairs;",
        "RegisterAction<pair_t, _, bit<32>>(pairs) act = {
    void apply(inout pair_t value, out bit<32> rv) {
        bit<32> old = value.lo;
        if (value.lo == hdr.d.a && value.hi != 0) { value.hi = value.hi - 1; }
        else if (value.hi == 0) { value = { hdr.d.a, 7 }; }
        rv = old;
    }
};
RegisterAction<pair_t, bit<16>, bit<32>>(pairs) clear = { void apply(inout pair_t value) { value = { 0, 0 }; } };
Register<bit<8>, bit<16>>(16) bytes;
RegisterParam<bit<8>>(3) step;
RegisterAction<bit<8>, bit<16>, bit<4>>(bytes) tell = {
    void apply(inout bit<8> value, out bit<4> rv) { rv = this.predicate(value == 0, hdr.d.e == 1); value = value + step.read(); }
};
Hash<bit<16>>(HashAlgorithm_t.CRC16) hash; Random<bit<8>>() random;
Counter<bit<64>, bit<16>>(16, CounterType_t.PACKETS) seen; DirectCounter<bit<32>>(CounterType_t.BYTES) hits;
action drop() { ig_dprsr_md.drop_ctl = 1; hits.count(); exit; }
action take(bit<16> index) { hdr.d.r = act.execute(index); hits.count(); }
@pragma stage 3
table t { key = { hdr.d.a : ternary; hdr.d.e : exact; } actions = { drop; take; } size = 4; counters = hits;
    default_action = drop; const entries = { (1 &&& 3, 2) : take(3); } }",
        "if (hdr.d.isValid()) { t.apply(); } else { clear.execute(0); }
hdr.d.c = hash.get({ hdr.d.a, hdr.d.b }); hdr.d.f = random.get(); seen.count(hdr.d.index);
hdr.d.e = (bit<8>)tell.execute(hdr.d.index); md.m = max(hdr.d.a, md.n);",
    )
    .replace(
        "    apply { pkt.emit(hdr); }",
        "    Checksum() sum; Mirror(1) mirror; Digest<bridged_t>() digest; Resubmit() again;
    apply {
        hdr.d.c = sum.update({ hdr.d.a, hdr.d.b });
        mirror.emit<bridged_t>(5, { hdr.d.e, hdr.d.c });
        if (ig_dprsr_md.digest_type == 1) { digest.pack({ hdr.d.e, hdr.d.d }); }
        if (ig_dprsr_md.resubmit_type == 1) { again.emit(); }
        pkt.emit(hdr);
    }",
    )
}

/// Approximate tokens of a text, including blanks.
fn tokens(text: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for c in text.chars() {
        match list.last_mut() {
            Some(last) if word(c) && last.ends_with(word) => last.push(c),
            _ => list.push(c.to_string()),
        }
    }
    list
}

#[test]
fn the_unmodified_programs_compile() {
    for text in [FORWARDER.to_owned(), rich(), tofino()] {
        if let Err(d) = compile_text("t.p4", &text, &[]) {
            panic!("{}", d.render(false));
        }
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Delete(prop::sample::Index),
    Duplicate(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
    Insert(prop::sample::Index, &'static str),
    Cut(prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    let texts = vec![
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        ";",
        ",",
        ".",
        "@",
        "[",
        "]",
        ":",
        "=",
        "0",
        "8w999",
        "1s1",
        "_",
        "&&&",
        "..",
        "bit<",
        "transition",
        "select",
        "apply",
        "table",
        "hdr",
        "meta",
        "state",
        "#define X(",
        "#if",
        "\"",
        "/*",
        "error",
        "default",
        "header",
        "-1",
        "99999999999999999999",
        "bit<0>",
        "bit<99999999>",
        "main",
        "RegisterAction",
        "execute",
        "pair_t",
        "value.lo",
        "{ 0, 0 }",
        "this.predicate(",
        "@pragma",
        "\u{e9}",
    ];
    prop_oneof![
        index().prop_map(Mutation::Delete),
        index().prop_map(Mutation::Duplicate),
        (index(), index()).prop_map(|(a, b)| Mutation::Swap(a, b)),
        (index(), prop::sample::select(texts)).prop_map(|(i, t)| Mutation::Insert(i, t)),
        index().prop_map(Mutation::Cut),
    ]
}

/// An error has a position and can be rendered.
fn check(text: &str) -> Result<(), TestCaseError> {
    if let Err(diagnostics) = compile_text("t.p4", text, &[]) {
        prop_assert!(diagnostics.has_errors());
        for d in &diagnostics {
            prop_assert!(d.source_line.get(d.underline.clone()).is_some(), "{d:?}");
            prop_assert!(d.line >= 1 && d.column >= 1 && !d.message.is_empty());
        }
        prop_assert!(!diagnostics.render(false).is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn mutated_programs_do_not_panic(
        which in 0usize..4,
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let text = [FORWARDER.to_owned(), rich(), tofino(), tofino()][which].clone();
        let mut list = tokens(&text);
        for m in mutations {
            if list.is_empty() {
                break;
            }
            let n = list.len();
            match m {
                Mutation::Delete(i) => { list.remove(i.index(n)); }
                Mutation::Duplicate(i) => { let t = list[i.index(n)].clone(); list.insert(i.index(n), t); }
                Mutation::Swap(a, b) => list.swap(a.index(n), b.index(n)),
                Mutation::Insert(i, t) => list.insert(i.index(n), format!(" {t} ")),
                Mutation::Cut(i) => list.truncate(i.index(n)),
            }
        }
        check(&list.concat())?;
    }

    #[test]
    fn random_text_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn random_directives_do_not_panic(
        lines in prop::collection::vec("(#(define|if|elif|else|endif|undef|ifdef|include|line|error)? ?)?[A-C(),#0-9+x\" \\\\]{0,20}", 0..20)
    ) {
        let text = lines.join("\n");
        check(&text)?;
        let _ = preprocess(&Sources::embedded().embed("t", text), "t", &[]);
    }

    /// Rearranged pieces of real programs get further into the compiler than random bytes.
    #[test]
    fn shuffled_lines_do_not_panic(
        tna in any::<bool>(),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let text = if tna { tofino() } else { rich() };
        let lines: Vec<&str> = text.lines().collect();
        let picked: Vec<&str> = order.iter().map(|i| lines[i.index(lines.len())]).collect();
        let architecture = if tna { "tna" } else { "v1model" };
        check(&format!("#include <{architecture}.p4>\n{}", picked.join("\n")))?;
    }
}

#[test]
fn deep_nesting_is_refused_not_overflowed() {
    for (open, close) in
        [("(", ")"), ("{", "}"), ("-", ""), ("!", ""), ("(bit<8>)", ""), ("if (true) ", ";")]
    {
        let apply = format!("meta.z = {}1{};", open.repeat(5000), close.repeat(5000));
        assert!(crate::common::compile("", "", &apply).is_err());
        let apply = format!("{}{}", open.repeat(5000), close.repeat(5000));
        assert!(crate::common::compile("", "", &apply).is_err());
    }
    let chain = vec!["1"; 20_000].join(" + ");
    let _ = crate::common::compile("", "", &format!("meta.z = {chain};"));
    let types = "tuple<".repeat(5000);
    assert!(crate::common::compile(&format!("const {types} x = 1;"), "", "").is_err());
}
