// Meters of packets and of bytes, by index and at entries. BMv2 has a real clock; without a rate the
// burst is all there is, and the color does not depend on time.
#include "common.p4"

header color_t { bit<8> index; bit<8> key; bit<8> packets; bit<8> bytes; bit<8> direct; }
struct headers_t { ethernet_t ethernet; color_t color; }
struct meta_t { bit<8> direct; bit<2> direct_bytes; }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: color; default: accept; }
    }
    state color { p.extract(hdr.color); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    meter(4, MeterType.packets) of_packets;
    meter(4, MeterType.bytes) of_bytes;
    direct_meter<bit<8>>(MeterType.packets) of_entries;
    direct_meter<bit<2>>(MeterType.bytes) of_ranges;
    action read(bit<8> add) { of_entries.read(meta.direct); hdr.color.direct = add; }
    action to(bit<9> port) { of_ranges.read(meta.direct_bytes); sm.egress_spec = port; }
    table entries {
        key = { hdr.color.key: exact; }
        actions = { read; NoAction; }
        meters = of_entries;
        default_action = NoAction;
    }
    table ranges {
        key = { hdr.color.index: range; }
        actions = { to; NoAction; }
        meters = of_ranges;
        default_action = NoAction;
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.color.isValid()) {
            sm.egress_spec = 2;
            of_packets.execute_meter((bit<32>) hdr.color.index[1:0], hdr.color.packets);
            of_bytes.execute_meter((bit<32>) hdr.color.index[1:0], hdr.color.bytes);
            entries.apply();
            ranges.apply();
            hdr.color.direct = hdr.color.direct + meta.direct + (6w0 ++ meta.direct_bytes);
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.color); } }
MAIN
