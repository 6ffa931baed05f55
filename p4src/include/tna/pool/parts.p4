// The files that ATP and ESA have in common, without their ingress control.
//
// A program defines before this file:
//
//   PROTOCOL     its protocol_t
//   PRIORITIES   if its aggregators have priorities (ESA)
#ifndef POOL_PARTS_P4
#define POOL_PARTS_P4

// As many as one pass through the stages can add.
#ifndef VALUES
#define VALUES 32
#endif

#include "../../sizes.p4"
#include "../../types.p4"
#include "../headers.p4"
#include "../target.p4"
#include "../../headers.p4"
#include "metadata.p4"
#include "../parser.p4"
#include "../deparser.p4"
#include "../screening.p4"
#include "../egress.p4"
#include "../../forwarding.p4"
#include "../../membership.p4"
#include "../../limits.p4"
#include "../outcomes.p4"
#include "../aggregator/bitmap.p4"
#include "../aggregator/marks.p4"
#include "../aggregator/values.p4"

#endif
