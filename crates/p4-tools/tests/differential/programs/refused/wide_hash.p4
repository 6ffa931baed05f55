// A hash into more bits than one has.
#include "../common.p4"

header x_t { bit<128> x; }
struct headers_t { ethernet_t ethernet; x_t x; }
struct meta_t { }

PARSER {
    state start { p.extract(hdr.ethernet); p.extract(hdr.x); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    apply {
        hash(hdr.x.x, HashAlgorithm.crc32, 128w0, { hdr.ethernet.kind }, 128w5);
        sm.egress_spec = 1;
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.x); } }
MAIN
