// Several indices that are known at run time only, and one into an array of structs with headers.

#include <core.p4>
#include <v1model.p4>

header tag_t { bit<8> tag; bit<8> last; }
struct group_t { tag_t head; tag_t[2] list; bit<8> kept; }
struct leaf_t { bit<4> high; bit<4> low; }

header h_t { bit<8> op; bit<8> i; bit<8> j; bit<8> value; }
struct headers_t { h_t h; group_t groups[2]; }
struct metadata_t {
    bit<8>[3][2] grid;
    leaf_t[2][2][2] cube;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        meta.grid[1][2] = 8w0x77;
        meta.grid[hdr.h.i & 1][hdr.h.j & 3] = 8w0x42;
        transition select(hdr.h.op) {
            2: group;
            default: accept;
        }
    }
    state group {
        packet.extract(hdr.groups[hdr.h.i].head);
        packet.extract(hdr.groups[hdr.h.i].list.next);
        transition select(hdr.groups[hdr.h.i].list.last.last) {
            1: accept;
            default: more;
        }
    }
    state more {
        packet.extract(hdr.groups[hdr.h.i].list.next);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action swap(inout bit<8> a, inout bit<8> b) {
        bit<8> old = a;
        a = b;
        b = old;
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.h.op == 0) {
            // Beyond an end of either dimension nothing is stored, and zero is read.
            meta.grid[hdr.h.i][hdr.h.j] = hdr.h.value;
            hdr.h.value = meta.grid[hdr.h.i][hdr.h.j] + meta.grid[1][2];
        } else if (hdr.h.op == 1) {
            meta.cube[hdr.h.i][hdr.h.j][hdr.h.i] = { 0xA, hdr.h.value[3:0] };
            meta.cube[hdr.h.i][hdr.h.j][hdr.h.i].high[1:0] = 3;
            leaf_t leaf = meta.cube[hdr.h.i][hdr.h.j][hdr.h.i];
            hdr.h.value = leaf.high ++ meta.cube[1][0][1].low;
            if (meta.cube[hdr.h.i] == meta.cube[0]) { hdr.h.i = hdr.h.i | 0x80; }
        } else if (hdr.h.op == 2) {
            hdr.h.value = hdr.groups[hdr.h.i].list[hdr.h.j].tag;
            hdr.groups[hdr.h.i].kept = (bit<8>)(bit<1>)hdr.groups[hdr.h.i].list[hdr.h.j].isValid();
            hdr.groups[hdr.h.i].head.tag = hdr.groups[hdr.h.i].kept;
            hdr.groups[hdr.h.i].list[hdr.h.j].setInvalid();
            hdr.groups[hdr.h.i].list.push_front(1);
            hdr.groups[hdr.h.i].list[0] = { 0x99, 0x98 };
            // A copy of the whole struct into the other one.
            hdr.groups[hdr.h.i ^ 1] = hdr.groups[hdr.h.i];
            hdr.groups[hdr.h.i ^ 1].head.last = 0xFE;
        } else {
            meta.grid[0] = { 1, 2, 3 };
            swap(meta.grid[hdr.h.i][hdr.h.j], meta.grid[hdr.h.i ^ 1][hdr.h.j]);
            hdr.h.value = meta.grid[0][hdr.h.j];
            // Without a width on the way: no carry is lost.
            hdr.h.i = (bit<8>)(((int)hdr.h.i + 200) * 2 - (int)hdr.h.j >> 1);
            hdr.h.j = (int)hdr.h.value - 5 < 0 ? 8w1 : 8w2;
        }
    }
}

#define OWN_DEPARSE
control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
        packet.emit(hdr.groups[0].head);
        packet.emit(hdr.groups[0].list);
        packet.emit(hdr.groups[1].head);
        packet.emit(hdr.groups[1].list);
    }
}

#include "lib/rest.p4"
