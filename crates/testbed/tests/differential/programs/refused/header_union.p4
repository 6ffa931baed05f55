// A header that is one of several.
#include "../common.p4"

header a_t { bit<8> v; }
header b_t { bit<16> v; }
header_union u_t { a_t a; b_t b; }
struct headers_t { ethernet_t ethernet; u_t u; }
struct meta_t { bit<32> x; }

PARSER {
    state a { p.extract(hdr.u.a); transition accept; }
    state start { p.extract(hdr.ethernet); transition select(hdr.ethernet.kind) { 1: a; default: accept; } }
}
VERIFY { apply { } }
INGRESS {
    
    apply { sm.egress_spec = 1; }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
