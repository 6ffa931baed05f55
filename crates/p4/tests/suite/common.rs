//! A v1model program around the tested parts.

use tributary_p4::ir::{ControlId, Program, Stmt};
use tributary_p4::{Block, Compilation, Diagnostics, compile_text};

/// Declarations, then an ingress control's declarations and its `apply` block. `hdr.h` is a header
/// with `a`, `b` (32 bits) and `c` (8 bits), `meta.x`, `meta.y` have 32 bits, `meta.z` 8.
pub(super) fn program(declarations: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <v1model.p4>
header h_t {{ bit<32> a; bit<32> b; bit<8> c; }}
struct headers_t {{ h_t h; h_t g; h_t[3] s; }}
struct meta_t {{ bit<32> x; bit<32> y; bit<8> z; bool flag; }}
parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    state start {{ p.extract(hdr.h); transition accept; }}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{}} }}
# 1000 \"declarations\"
{declarations}
# 2000
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
# 1 \"locals\"
{locals}
# 3000
    apply {{
# 1 \"apply\"
{apply}
# 4000
    }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{ apply {{}} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{}} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

pub(super) fn compile(
    declarations: &str,
    locals: &str,
    apply: &str,
) -> Result<Compilation, Diagnostics> {
    compile_text("main.p4", &program(declarations, locals, apply), &[])
}

pub(super) fn compiles(declarations: &str, locals: &str, apply: &str) -> Program {
    match compile(declarations, locals, apply) {
        Ok(done) => done.program,
        Err(diagnostics) => panic!("{}", diagnostics.render(false)),
    }
}

/// The ingress control's statements.
pub(super) fn ingress(program: &Program) -> &[Stmt] {
    match program.block("ig") {
        Some(Block::Control(ControlId(i))) => &program.controls[i as usize].body,
        _ => panic!("no ingress"),
    }
}
