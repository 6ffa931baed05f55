//! The language from source to frame: small programs, one construct each, and their frames.

mod loops;
mod parsers;
mod unions;
mod values;
mod varbits;

use tributary_dataplane::{EgressInput, IngressInput, Packet, Pipeline, Verdict};
use tributary_p4::compile_text;

use super::common;

/// The parts of a v1model program. `hdr.h` has four bytes `a`, `b`, `c`, `d` and is parsed first;
/// the deparser emits `hdr`.
#[derive(Clone, Copy, Default)]
struct Source<'a> {
    /// Declarations before the structs.
    types: &'a str,
    /// Members of `headers_t`, after `h`.
    headers: &'a str,
    /// Members of `meta_t`.
    meta: &'a str,
    /// Declarations of the parser.
    parser_locals: &'a str,
    /// States of the parser; `start` extracts `hdr.h` and goes to `next`.
    states: &'a str,
    /// Declarations of the ingress control.
    locals: &'a str,
    /// Statements of the ingress control.
    apply: &'a str,
}

impl Source<'_> {
    fn text(&self) -> String {
        let Self { types, headers, meta, parser_locals, states, locals, apply } = self;
        let states = if states.is_empty() { "state next { transition accept; }" } else { states };
        format!(
            "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; bit<8> c; bit<8> d; }}
{types}
struct headers_t {{ h_t h; {headers} }}
struct meta_t {{ bit<8> x; {meta} }}
parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {parser_locals}
    state start {{ p.extract(hdr.h); transition next; }}
    {states}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{}} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ {apply} }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{ apply {{}} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{}} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
        )
    }

    #[track_caller]
    fn load(&self) -> Program {
        let compiled = match compile_text("t.p4", &self.text(), &[]) {
            Ok(compiled) => compiled,
            Err(errors) => panic!("{}", errors.render(false)),
        };
        let pipeline = common::load(compiled.program).unwrap_or_else(|error| panic!("{error}"));
        let packet = pipeline.new_packet();
        Program { pipeline, packet }
    }
}

struct Program {
    pipeline: Pipeline,
    packet: Packet,
}

impl Program {
    /// The outgoing frame; `None` if it is dropped.
    fn pass(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let ingress = self.pipeline.ingress(&mut self.packet, frame, &IngressInput::default());
        if ingress.verdict == Verdict::Drop {
            return None;
        }
        let mut out = Vec::new();
        let egress = self.pipeline.egress(&mut self.packet, &EgressInput::default(), &mut out);
        (!egress.drop).then_some(out)
    }

    #[track_caller]
    fn gives(&mut self, frame: &[u8], expected: &[u8]) {
        assert_eq!(self.pass(frame).as_deref(), Some(expected), "for {frame:?}");
    }
}

/// Checks the effect of an ingress control on frames.
#[track_caller]
fn apply_gives(locals: &str, apply: &str, frames: &[(&[u8], &[u8])]) {
    let mut program = Source { locals, apply, ..Source::default() }.load();
    for (frame, expected) in frames {
        program.gives(frame, expected);
    }
}
