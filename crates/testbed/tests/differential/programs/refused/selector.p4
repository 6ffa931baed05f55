// Groups of actions, chosen by a hash.
#include "../common.p4"


struct headers_t { ethernet_t ethernet;  }
struct meta_t { bit<32> x; }

PARSER {
    state start { p.extract(hdr.ethernet); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    action to(bit<9> port) { sm.egress_spec = port; }
    action_selector(HashAlgorithm.crc16, 16, 8) paths;
    table ways {
        key = { hdr.ethernet.kind: exact; hdr.ethernet.source: selector; }
        actions = { to; }
        implementation = paths;
    }
    apply { ways.apply(); }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
