// Header stacks: a label stack is parsed with `next` and `last`, then pushed to, popped from and indexed.

#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> op; }
header label_t { bit<7> value; bit<1> bottom; }
struct headers_t { op_t op; label_t[4] labels; }
struct metadata_t { bit<32> last_index; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.op);
        transition labels;
    }
    state labels {
        packet.extract(hdr.labels.next);
        meta.last_index = hdr.labels.lastIndex;
        transition select(hdr.labels.last.bottom) {
            0: labels;
            default: accept;
        }
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.op.op == 1) {
            hdr.labels.push_front(1);
            hdr.labels[0].setValid();
            hdr.labels[0] = { 0x55, 0 };
        } else if (hdr.op.op == 2) {
            hdr.labels.pop_front(2);
        } else if (hdr.op.op == 3) {
            hdr.op.op = (bit<8>)meta.last_index;
        } else if (hdr.op.op == 4) {
            hdr.labels[1].value = hdr.labels[0].value + 1;
        } else if (hdr.op.op == 5) {
            // Three places up: only the first label is still in the stack.
            hdr.labels.push_front(3);
        }
    }
}

#include "lib/rest.p4"
