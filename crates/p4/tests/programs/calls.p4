// Actions that a table has, that a block calls, and that only other actions call.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers { h_t h; }
struct meta_t { bit<8> m; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t s) { state start { p.extract(hdr.h); transition accept; } }
control V(inout headers hdr, inout meta_t m) { apply {} }

control I(inout headers hdr, inout meta_t m, inout standard_metadata_t s) {
    action helper(bit<8> x) { hdr.h.a = x; }
    action deeper() { helper(3); }
    action direct() { m.m = 1; }
    action unused() { m.m = 9; }
    action both() { m.m = 2; }
    action listed(bit<8> v) { helper(v); deeper(); both(); }
    table t { key = { hdr.h.a: exact; } actions = { listed; both; NoAction; } default_action = NoAction(); }
    apply { t.apply(); direct(); }
}

control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta_t m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
