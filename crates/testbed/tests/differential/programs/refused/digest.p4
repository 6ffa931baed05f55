// Digests.
#include "../common.p4"

struct news_t { bit<48> source; }
struct headers_t { ethernet_t ethernet;  }
struct meta_t { bit<32> x; }

PARSER {
    state start { p.extract(hdr.ethernet); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    
    apply { digest<news_t>(1, { hdr.ethernet.source }); sm.egress_spec = 1; }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
