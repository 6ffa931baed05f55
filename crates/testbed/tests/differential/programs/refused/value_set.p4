// Values for the parser that the controller sets.
#include "../common.p4"


struct headers_t { ethernet_t ethernet;  }
struct meta_t { bit<32> x; }

PARSER {
    value_set<bit<16>>(4) known;
    state start { p.extract(hdr.ethernet); transition select(hdr.ethernet.kind) { known: accept; default: reject; } }
}
VERIFY { apply { } }
INGRESS {
    
    apply { sm.egress_spec = 1; }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
