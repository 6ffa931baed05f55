// Clones: the embedded switch has no clone sessions.
#include "../common.p4"


struct headers_t { ethernet_t ethernet;  }
struct meta_t { bit<32> x; }

PARSER {
    state start { p.extract(hdr.ethernet); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    
    apply { clone(CloneType.I2E, 5); sm.egress_spec = 1; }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
