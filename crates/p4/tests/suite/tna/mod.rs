//! TNA: its architecture, the capabilities of Tofino's registers, and comparison with Tofino's own
//! compiler.

mod barefoot;
mod language;
mod p4info;
mod samples;
mod stateful;

use tributary_p4::{Compilation, Diagnostics, compile_text};

/// A program around declarations and the `apply` block of its ingress control. `hdr.d` is a header
/// with `a`, `b`, `r` (32 bits), `c`, `d`, `index` (16) and `e`, `f` (8); `md.m` and `md.n` have 32
/// bits.
pub(super) fn program(declarations: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <core.p4>
#include <tna.p4>
header data_t {{
    bit<32> a; bit<32> b; bit<32> r; bit<16> c; bit<16> d; bit<16> index; bit<8> e; bit<8> f;
}}
struct headers_t {{ data_t d; data_t g; }}
struct metadata_t {{ bit<32> m; bit<32> n; }}
struct nothing_t {{}}
struct pair8_t {{ bit<8> lo; bit<8> hi; }}
struct pair16_t {{ bit<16> lo; bit<16> hi; }}
struct pair_t {{ bit<32> lo; bit<32> hi; }}
struct three_t {{ bit<32> x; bit<32> y; bit<32> z; }}
struct unequal_t {{ bit<32> x; bit<16> y; }}
# 1000 \"declarations\"
{declarations}
# 2000 \"main.p4\"
parser IngressParser(packet_in pkt, out headers_t hdr, out metadata_t md,
                     out ingress_intrinsic_metadata_t ig_intr_md) {{
    state start {{
        pkt.extract(ig_intr_md);
        pkt.advance(PORT_METADATA_SIZE);
        md = {{ 0, 0 }};
        pkt.extract(hdr.d);
        transition accept;
    }}
}}
control Ingress(inout headers_t hdr, inout metadata_t md,
                in ingress_intrinsic_metadata_t ig_intr_md,
                in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {{
# 1 \"locals\"
{locals}
# 3000 \"main.p4\"
    apply {{
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
# 1 \"apply\"
{apply}
# 4000 \"main.p4\"
    }}
}}
control IngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t md,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {{
    apply {{ pkt.emit(hdr); }}
}}
parser EgressParser(packet_in pkt, out nothing_t hdr, out nothing_t md,
                    out egress_intrinsic_metadata_t eg_intr_md) {{
    state start {{ pkt.extract(eg_intr_md); transition accept; }}
}}
control Egress(inout nothing_t hdr, inout nothing_t md,
               in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {{
    apply {{}}
}}
control EgressDeparser(packet_out pkt, inout nothing_t hdr, in nothing_t md,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {{
    apply {{}}
}}
Pipeline(IngressParser(), Ingress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
"
    )
}

pub(super) fn compile(text: &str) -> Result<Compilation, Diagnostics> {
    compile_text("main.p4", text, &[])
}

pub(super) fn compiles(text: &str) -> Compilation {
    compile(text).unwrap_or_else(|d| panic!("{}", d.render(false)))
}
