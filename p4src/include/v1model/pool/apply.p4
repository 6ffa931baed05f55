// The end of the ingress control of ATP and ESA: the order in which their blocks and tables apply.
//
// A program defines, as macros, in its main file, atp/rules.p4 or esa/addresses.p4:
//
//   PROTOCOL         its protocol_t
//   EXAMINE          statements: the bits that its table of intents looks at
//   AFTER_BITMAP     statements: its block that applies when the bitmap is known
//   READDRESS        statements: new addresses for packets that are counted
//   PUBLISH          a branch `else if (…) { … }`: a packet that has become the result

action drop() {
    mark_to_drop(standard);
}

apply {
    screening.apply(hdr, standard, PROTOCOL, meta);
    limits.apply(hdr, meta);
    if (meta.ours == 1) {
        membership.apply(hdr, meta);
        if (meta.member == 0) {
            meta.outcome = outcome_t.REJECTED;
        } else if (meta.color == RED) {
            meta.outcome = outcome_t.EXCEEDED;
        } else if (meta.transit == 1) {
            meta.outcome = outcome_t.BYPASSED;
            meta.forward = 1;
        } else {
            EXAMINE
            if (hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED || hdr.aggregation.congested == 1) {
                meta.mark = 1;
            }
            intents.apply();
        }
    } else if (meta.forward == 1 && meta.color == RED) {
        meta.forward = 0;
        meta.outcome = outcome_t.EXCEEDED;
    }

    if (meta.access != access_t.NONE) {
        identity.apply(hdr.aggregation.epoch, hdr.aggregation.sequence, hdr.aggregation.index, meta);
        contributions.apply(hdr.aggregation.bitmap, hdr.aggregation.index, meta);
        AFTER_BITMAP
        if (meta.overlap == 0 || meta.access == access_t.FLUSH) {
            marks.apply(hdr.aggregation.index, meta);
        }
        rules.apply();
        values.apply(hdr, meta);
    }

    if (meta.again == 1) {
        // Counted in its last pass.
        resubmit_preserving_field_list(KEPT);
    } else {
        outcomes.apply(meta);
    }

    READDRESS

    if (meta.access == access_t.SWEEP) {
        if (meta.holder == holder_t.MINE) {
            hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
        }
        hdr.aggregation.index = hdr.aggregation.index + 1;
        standard.egress_spec = CPU_PORT;
    }
    PUBLISH
    else if (meta.forward == 1) {
        // A packet that needs no aggregator here passes unchanged.
        if (meta.access != access_t.NONE && meta.mark == 1) {
            hdr.aggregation.congested = 1;
        }
        forwarding.apply(hdr, standard);
    } else if (meta.outcome != outcome_t.DISTRIBUTED) {
        drop();
    }
}
