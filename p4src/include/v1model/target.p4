// What BMv2's switch has that others have otherwise.
#ifndef TARGET_P4
#define TARGET_P4

#include "../types.p4"

// The controller's port.
const port_t CPU_PORT = 510;

// BMv2's instance types that we tell apart.
const bit<32> RECIRCULATED = 4;

// The field list that survives a resubmit or a recirculation.
const bit<8> KEPT = 1;

// How the controls that both architectures share send packets.
#define SENDING inout standard_metadata_t standard
#define SEND(port) standard.egress_spec = port;
#define SEND_TO_GROUP(group) standard.mcast_grp = group;
#define FLOOD standard.mcast_grp = FLOOD_GROUP;
#define DROP mark_to_drop(standard);

// Tables of constant entries have room enough.
#define RULES_SIZE
#define OWNERS_SIZE

// What the counters of a table count.
#define DIRECT_COUNTER(name) direct_counter(CounterType.packets_and_bytes) name;
#define COUNT(name)

// Direct meters, and what they say of packets above the rate.
#define DIRECT_METER(name) direct_meter<color_t>(MeterType.bytes) name;
#define METER(name, color) name.read(color);
const color_t YELLOW = 1;
const color_t RED = 2;

// The lower of two numbers replaces the first.
#define LOWER(field, bound) \
    if (field > bound) { \
        field = bound; \
    }

// Headers besides those of the packet, and comparisons with its bitmap: none are needed here.
#define TARGET_HEADERS
#define COMPARE(unit, members)

// Whether an aggregator is in a segment. What lies before the segment is far behind it: subtraction
// wraps.
#define PLACE_VARIABLES index_t place = 0; index_t places = 0;
#define PLACE(offset, size, total) \
    meta.end = offset + size; \
    place = hdr.aggregation.index - offset; \
    places = size;
#define CHECK_PLACE if (place < places) { meta.inside = 1; }

#endif
