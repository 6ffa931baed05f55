// Meters.
#include "../common.p4"


struct headers_t { ethernet_t ethernet;  }
struct meta_t { bit<32> x; }

PARSER {
    state start { p.extract(hdr.ethernet); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    meter(4, MeterType.packets) rates;
    apply { rates.execute_meter(32w1, meta.x); sm.egress_spec = (bit<9>) meta.x; }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
