//! Programs that compile and cannot run: loading reports where they must change.

use std::path::{Path, PathBuf};

use tributary_p4::{Compilation, Options, Sources};
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_switch::{Forwarding, Refusal};

fn load(compiled: Compilation) -> Result<Forwarding, Refusal> {
    let config = ForwardingPipelineConfig { p4info: Some(compiled.p4info), ..Default::default() };
    Forwarding::load(compiled.program, config)
}

/// The first error of loading a program: line, column, message.
fn error(text: &str) -> (u32, u32, String) {
    let compiled = tributary_p4::compile_text("t.p4", text, Options::marked(&[]));
    let compiled = compiled.unwrap_or_else(|errors| panic!("{errors}"));
    let refusal = load(compiled).expect_err("it cannot run");
    let error = *refusal.diagnostic.expect("it has a position");
    assert_eq!(error.file, "t.p4");
    assert_eq!(refusal.message, error.to_string());
    (error.line, error.column, error.message)
}

/// A program for v1model whose ingress has these locals and statements, from line 11 on.
fn v1model(header: &str, ingress: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ {header} }}
struct H {{ h_t h; }}
struct M {{ bit<8> x; }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control V(inout H h, inout M m) {{ apply {{ }} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{
{ingress}
}}
control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
    )
}

/// A program for TNA with these statements in the parser's and the control's bodies.
fn tna(parser: &str, locals: &str, egress: &str) -> String {
    format!(
        "#include <core.p4>
#include <tna.p4>
header h_t {{ bit<8> a; bit<16> b; }}
struct H {{ h_t h; }}
struct M {{ bit<16> x; }}
parser IP(packet_in p, out H h, out M m, out ingress_intrinsic_metadata_t ig) {{
    Checksum() sum;
    state start {{
        p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(h.h);
{parser}
        transition accept;
    }}
}}
control I(inout H h, inout M m, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr,
          inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {{
{locals}
    apply {{ }}
}}
control ID(packet_out p, inout H h, in M m, in ingress_intrinsic_metadata_for_deparser_t d) {{
    apply {{ p.emit(h); }}
}}
parser EP(packet_in p, out H h, out M m, out egress_intrinsic_metadata_t eg) {{
    state start {{ p.extract(eg); transition accept; }}
}}
control E(inout H h, inout M m, in egress_intrinsic_metadata_t eg,
          in egress_intrinsic_metadata_from_parser_t prsr,
          inout egress_intrinsic_metadata_for_deparser_t dprsr,
          inout egress_intrinsic_metadata_for_output_port_t port) {{
    apply {{
{egress}
    }}
}}
control ED(packet_out p, inout H h, in M m, in egress_intrinsic_metadata_for_deparser_t d) {{
    apply {{ p.emit(h); }}
}}
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
"
    )
}

#[test]
fn what_cannot_run_has_a_position() {
    let none = "apply { }";
    let byte = "bit<8> a; bit<8> b;";
    let two = "    table t { key = { h.h.a: lpm; h.h.b: lpm; } actions = { NoAction; } }
    apply { t.apply(); }";
    let large = "    register<bit<64>>(32w700000000) r;
    apply { }";
    let cases = [
        (v1model("bit<9> a;", none), 3, 8, "header `h.h` has 9 bits: not a whole number of bytes"),
        (v1model(byte, two), 11, 11, "table `I.t`: more than one lpm key"),
        (v1model(byte, large), 11, 37, "`I.r` and the instances before it take more than 4096 MiB"),
        (
            tna("", "", "        dprsr.coalesce_flush = 1;"),
            32,
            9,
            "the program uses `eg_dprsr_md.coalesce_flush`: coalesced mirroring is not",
        ),
        (
            tna("        sum.subtract({ h.h.a, 4w0 });", "", ""),
            10,
            9,
            "extern `Checksum IP.sum.subtract`: the values are not whole bytes",
        ),
    ];
    for (text, line, column, message) in cases {
        let got = error(&text);
        assert_eq!((got.0, got.1), (line, column), "{}", got.2);
        assert!(got.2.starts_with(message), "{}", got.2);
    }
}

#[test]
fn a_program_without_a_package_or_with_an_unknown_one_has_a_position() {
    assert_eq!(error("header h_t { bit<8> a; }"), (1, 1, "the program has no `main`".to_owned()));
    let other = "control C();\npackage Own(C c);\ncontrol D() { apply { } }\nOwn(D()) main;";
    let (line, column, message) = error(other);
    assert_eq!((line, column), (4, 10), "{message}");
    assert!(message.starts_with("unknown architecture: package `Own`"), "{message}");
}

/// All P4 files of the repository below a folder.
fn programs(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            programs(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            all.push(path);
        }
    }
}

#[test]
fn each_program_of_the_repository_loads_or_has_an_error_with_a_position() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["crates", "p4src", "examples"] {
        programs(&root.join(folder), &mut files);
    }
    let mut loaded = 0;
    for file in &files {
        let name = file.display().to_string();
        let options = Options::marked(&[]);
        // Some are written to be refused by the compiler.
        let Ok(compiled) = tributary_p4::compile(&Sources::disk(), &name, options) else {
            continue;
        };
        match load(compiled) {
            Ok(_) => loaded += 1,
            Err(refusal) => {
                let error = refusal.diagnostic;
                let error = error.unwrap_or_else(|| panic!("{name}: {}", refusal.message));
                assert!(error.line > 0 && error.column > 0, "{name}: {error}");
            }
        }
    }
    assert!(loaded > 60, "{loaded} of {} programs load", files.len());
}
