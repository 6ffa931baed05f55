// Meters of PSA: blind to the packet's colour or aware of it, in arrays and at entries.

#include "lib/psa_start.p4"

header h_t { bit<8> kind; bit<8> index; bit<8> color; }
struct headers_t { h_t h; }
struct metadata_t {}

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Meter<bit<8>>(4, PSA_MeterType_t.PACKETS) rates;
    DirectMeter(PSA_MeterType_t.PACKETS) direct_rate;
    PSA_MeterColor_t color;
    PSA_MeterColor_t before;

    action blind() { color = direct_rate.execute(); }
    action aware() { color = direct_rate.execute(before); }
    table direct {
        key = { hdr.h.index : exact; }
        actions = { blind; aware; NoAction; }
        default_action = NoAction();
        psa_direct_meter = direct_rate;
    }

    apply {
        send_to_port(ostd, (PortId_t) 1);
        if (hdr.h.color == 1) { before = PSA_MeterColor_t.YELLOW; }
        else if (hdr.h.color == 2) { before = PSA_MeterColor_t.RED; }
        else { before = PSA_MeterColor_t.GREEN; }
        color = before;
        switch (hdr.h.kind) {
            1: { color = rates.execute(hdr.h.index); }
            2: { color = rates.execute(hdr.h.index, before); }
            3: { color = rates.execute(hdr.h.index, PSA_MeterColor_t.YELLOW); }
            4: { direct.apply(); }
        }
        if (color == PSA_MeterColor_t.GREEN) { hdr.h.color = 0x60; }
        else if (color == PSA_MeterColor_t.YELLOW) { hdr.h.color = 0x70; }
        else if (color == PSA_MeterColor_t.RED) { hdr.h.color = 0x80; }
    }
}

#include "lib/psa.p4"
