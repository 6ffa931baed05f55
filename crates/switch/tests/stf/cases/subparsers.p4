// A parser that another one calls, twice, with arguments in both directions.

#include <core.p4>
#include <v1model.p4>

header item_t { bit<8> size; bit<8> value; }
struct headers_t { item_t first; item_t second; }
struct metadata_t { bit<8> sum; }

parser Item(packet_in packet, out item_t item, in bit<8> weight, inout bit<8> sum) {
    state start {
        packet.extract(item);
        transition select(item.size) {
            0: accept;
            default: add;
        }
    }
    state add {
        sum = sum + item.value * weight;
        transition accept;
    }
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Item() item;
    state start {
        meta.sum = 1;
        item.apply(packet, hdr.first, 2, meta.sum);
        transition select(hdr.first.size) {
            9: accept;
            default: another;
        }
    }
    state another {
        item.apply(packet, hdr.second, 3, meta.sum);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.first.size = meta.sum;
    }
}

#include "lib/rest.p4"
