// Action profiles and selectors of PSA, and the action for a group without members.

#include "lib/psa_start.p4"

header h_t { bit<8> kind; bit<8> key; bit<16> flow; bit<8> result; }
struct headers_t { h_t h; }
struct metadata_t {}

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    ActionProfile(4) shared;
    ActionSelector(PSA_HashAlgorithm_t.IDENTITY, 8, 16) spread;
    ActionSelector(PSA_HashAlgorithm_t.CRC16, 8, 16) silent;
    action set(bit<8> value) { hdr.h.result = value; }
    action nowhere(bit<8> value) { hdr.h.result = value; }
    table plain {
        key = { hdr.h.key : exact; }
        actions = { set; NoAction; }
        psa_implementation = shared;
    }
    table hashed {
        key = { hdr.h.key : exact; hdr.h.flow : selector; }
        actions = { set; nowhere; NoAction; }
        psa_implementation = spread;
        psa_empty_group_action = nowhere(0xee);
    }
    table without {
        key = { hdr.h.key : exact; hdr.h.flow : selector; }
        actions = { set; NoAction; }
        psa_implementation = silent;
    }
    apply {
        send_to_port(ostd, (PortId_t) 1);
        switch (hdr.h.kind) {
            1: { plain.apply(); }
            2: {
                switch (hashed.apply().action_run) {
                    nowhere: { send_to_port(ostd, (PortId_t) 2); }
                    default: {}
                }
            }
            3: { without.apply(); }
        }
    }
}

#include "lib/psa.p4"
