// Values that controllers call by names, as production programs for PINS have them.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU = 510;

@p4runtime_translation("", string)
type bit<9> port_id_t;

@p4runtime_translation("", string)
@p4runtime_translation_mappings({
    // The default one has no name.
    {"", 0},
})
type bit<10> vrf_id_t;

@p4runtime_translation("", string)
type bit<2> nexthop_id_t;

const vrf_id_t DEFAULT_VRF = 0;

@controller_header("packet_in")
header packet_in_t {
    port_id_t ingress_port;
    bit<7>    filler;
}

@controller_header("packet_out")
header packet_out_t {
    port_id_t egress_port;
    bit<7>    filler;
}

// In no packet.
@controller_header("packet_more")
header packet_more_t {
    port_id_t port;
}

header request_t {
    bit<8>  kind;     // 0: route, 1: spread, 2: to the controller, 3: answer the VRF, 4: multicast
    bit<8>  vrf;
    bit<16> key;
    bit<16> answer;
    bit<64> filler;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    request_t    request;
}

struct metadata_t {
    vrf_id_t     vrf;
    nexthop_id_t nexthop;
    port_id_t    ingress;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    state start {
        meta.vrf = DEFAULT_VRF;
        meta.nexthop = 0;
        meta.ingress = (port_id_t) standard.ingress_port;
        transition select(standard.ingress_port) {
            CPU: from_controller;
            _: request;
        }
    }

    state from_controller {
        packet.extract(hdr.packet_out);
        transition accept;
    }

    state request {
        packet.extract(hdr.request);
        transition accept;
    }
}

control TestVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    action_selector(HashAlgorithm.identity, 16, 16) selector;

    action set_vrf(vrf_id_t vrf) {
        meta.vrf = vrf;
    }

    action set_nexthop(nexthop_id_t nexthop) {
        meta.nexthop = nexthop;
    }

    action set_port(port_id_t port) {
        standard.egress_spec = (bit<9>) port;
    }

    action drop() {
        mark_to_drop(standard);
    }

    table vrfs {
        key = { hdr.request.vrf: exact; }
        actions = { set_vrf; }
        // The numbers in a program's own entries belong to no name.
        entries = { const 255: set_vrf((vrf_id_t) 1023); }
    }

    table routes {
        key = { meta.vrf: exact; hdr.request.key: lpm; }
        actions = { set_nexthop; drop; }
        default_action = drop();
    }

    table nexthops {
        key = { meta.nexthop: exact; }
        actions = { set_port; drop; }
        default_action = drop();
    }

    table spread {
        key = { meta.vrf: exact; hdr.request.key: selector; }
        actions = { set_port; NoAction; }
        implementation = selector;
    }

    table blocked {
        key = { meta.ingress: optional; }
        actions = { drop; }
    }

    table by_mask {
        key = { meta.vrf: ternary; }
        actions = { NoAction; }
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = (bit<9>) hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
            exit;
        }
        vrfs.apply();
        by_mask.apply();
        if (hdr.request.kind == 0) {
            if (routes.apply().hit) {
                nexthops.apply();
            }
            blocked.apply();
        } else if (hdr.request.kind == 1) {
            spread.apply();
        } else if (hdr.request.kind == 2) {
            standard.egress_spec = CPU;
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = (port_id_t) standard.ingress_port;
        } else if (hdr.request.kind == 3) {
            hdr.request.answer = (bit<16>) (bit<10>) meta.vrf;
            standard.egress_spec = 1;
        } else {
            standard.mcast_grp = 1;
        }
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    apply { }
}

control TestCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TestParser(), TestVerify(), TestIngress(), TestEgress(), TestCompute(), TestDeparser()) main;
