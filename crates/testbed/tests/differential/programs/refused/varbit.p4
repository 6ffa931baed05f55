// Headers of a length that a packet tells.
#include "../common.p4"

header options_t { bit<8> length; varbit<64> data; }
struct headers_t { ethernet_t ethernet; options_t options; }
struct meta_t { bit<32> x; }

PARSER {
    state start { p.extract(hdr.ethernet); p.extract(hdr.options, 16); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    
    apply { sm.egress_spec = 1; }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
