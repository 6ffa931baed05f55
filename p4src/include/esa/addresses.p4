// Packets of ESA that the switch sends to other hosts than their sender meant: part of the ingress
// control of both architectures.

    // Back to the sender.
    action turn_back() {
        mac_t mac = hdr.ethernet.source;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = mac;
        ipv4_address_t address = hdr.ipv4.source;
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.ipv4.destination = address;
    }

    // Straight to all workers; the sender of the last contribution stays the source.
    action announce() {
        hdr.ethernet.destination = GROUP_MAC ++ hdr.aggregation.job;
        hdr.ipv4.destination = GROUP_IPV4 ++ hdr.aggregation.job;
        hdr.aggregation.kind = kind_t.PARAMETER;
        hdr.aggregation.priority = 0;
        hdr.aggregation.congested = meta.mark;
        SEND_TO_GROUP(meta.group)
    }

    // ECT(0) of RFC 3168.
    const bit<2> ECN_CAPABLE = 2;

    // Hooks of apply.p4. An evicted sum goes to the server of its own task. It has that task's mark as a
    // flag, and not the congestion that the evicting packet met. Answers to reminders go back to the
    // agent.
    #define READDRESS \
        if (meta.outcome == outcome_t.PREEMPTED) { \
            hdr.aggregation.congested = meta.mark; \
            if (hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED) { \
                hdr.ipv4.ecn = ECN_CAPABLE; \
            } \
            servers.apply(hdr, meta); \
        } else if (meta.outcome == outcome_t.REMINDED || meta.outcome == outcome_t.ABSENT) { \
            turn_back(); \
        }

    #define PUBLISH \
        else if (meta.result == 1) { \
            announce(); \
        }
