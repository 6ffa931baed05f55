// The files that P4INC and SwitchML have in common, without their ingress control. A program adds the one
// with the control Values: aggregator/copies.p4 or aggregator/sums.p4.
//
// A program defines before this file:
//
//   PROTOCOL              its protocol_t
//   ASYNCHRONOUS_ERRORS   if it has packets of that kind (P4INC)
//   COPIES                if its aggregators have shadow copies (P4INC)
#ifndef SEGMENTS_PARTS_P4
#define SEGMENTS_PARTS_P4

// Results may be for some of the workers.
#define AUDIENCES

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
#include "../workers.p4"
#include "../../services.p4"
#include "../../answers.p4"
#include "../../audiences.p4"
#include "../outcomes.p4"
#include "../aggregator/rounds.p4"
#include "../aggregator/flags.p4"

#endif
