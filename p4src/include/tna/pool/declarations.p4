// The beginning of the ingress control of ATP and ESA: blocks that both have, and the actions that both
// tables of intents call. The control goes on with what is the program's own, and ends with apply.p4.

Screening() screening;
Limits() limits;
Membership() membership;
Contributions() contributions;
Marks() marks;
Values() values;
Forwarding() forwarding;
Outcomes() outcomes;

#include "../aggregator/identity.p4"

action pass(outcome_t outcome) {
    meta.forward = 1;
    meta.outcome = outcome;
}

action refuse(outcome_t outcome) {
    meta.outcome = outcome;
}
