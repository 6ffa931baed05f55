// Header unions: one of several headers, alone and in stacks; validity, copies, comparison.
#include "common.p4"

header pick_t { bit<8> kind; bit<8> what; }
header a_t { bit<8> v; bit<8> w; }
header b_t { bit<16> v; }
header_union u_t { a_t a; b_t b; }
struct headers_t { ethernet_t ethernet; pick_t pick; u_t u; u_t spare; u_t[3] list; u_t[3] other; u_t kept; }
struct meta_t { bit<8> n; }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: pick; default: accept; }
    }
    state pick {
        p.extract(hdr.pick);
        transition select(hdr.pick.kind[1:0]) { 0: a; 1: b; 2: both; default: list; }
    }
    state a { p.extract(hdr.u.a); transition list; }
    state b { p.extract(hdr.u.b); transition list; }
    state both { p.extract(hdr.u.a); p.extract(hdr.u.b); transition list; }
    state list {
        // Counted here: BMv2 has no `lastIndex` of a stack of unions.
        meta.n = meta.n + 1;
        transition select(p.lookahead<bit<8>>(), meta.n) {
            (_, 4): accept;
            (0x00 &&& 0x01, _): element_a;
            default: element_b;
        }
    }
    state element_a { p.extract(hdr.list.next.a); transition list; }
    state element_b { p.extract(hdr.list.next.b); transition list; }
}
VERIFY { apply { } }
INGRESS {
    action set_a() { hdr.u.a.setValid(); hdr.u.a.v = 0xaa; hdr.u.a.w = hdr.pick.kind; }
    action set_b() { hdr.u.b.setValid(); hdr.u.b.v = 0xbbbb; }
    action unset_a() { hdr.u.a.setInvalid(); }
    action copy() { hdr.spare = hdr.u; }
    action copy_member() { hdr.spare.a = hdr.u.a; hdr.spare.b = hdr.list[0].b; }
    action swap() { hdr.kept = hdr.list[1]; hdr.list[1] = hdr.u; hdr.u = hdr.kept; }
    action push() { hdr.list.push_front(1); hdr.list[0].b.setValid(); hdr.list[0].b.v = 0xcccc; }
    // BMv2 leaves the union that was popped, at the other end.
    action pop() { hdr.list.pop_front(1); hdr.list[2].a.setInvalid(); hdr.list[2].b.setInvalid(); }
    action whole() { hdr.other = hdr.list; hdr.other[2].a.setValid(); hdr.other[2].a.v = 1; hdr.other[2].a.w = 2; }
    table choose {
        key = { hdr.pick.what : exact; }
        actions = { set_a; set_b; unset_a; copy; copy_member; swap; push; pop; whole; NoAction; }
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.pick.isValid()) {
            sm.egress_spec = 2;
            choose.apply();
            meta.n = 0;
            if (hdr.u.isValid()) { meta.n = meta.n + 1; }
            if (hdr.u.a.isValid()) { meta.n = meta.n + 2; }
            if (hdr.u.b.isValid()) { meta.n = meta.n + 4; }
            if (hdr.list[0].a.isValid()) { meta.n = meta.n + 8; }
            if (hdr.list[2].b.isValid()) { meta.n = meta.n + 16; }
            hdr.pick.what = meta.n;
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
