// The beginning of the ingress control of ATP and ESA: blocks that both have, and the actions that both
// tables of intents call. The control goes on with what is the program's own, and ends with apply.p4.

Screening() screening;
Limits() limits;
Membership() membership;
Identity() identity;
Contributions() contributions;
Marks() marks;
Values() values;
Forwarding() forwarding;
Outcomes() outcomes;

action touch(access_t access) {
    meta.access = access;
}

action pass(outcome_t outcome) {
    meta.access = access_t.NONE;
    meta.forward = 1;
    meta.outcome = outcome;
}

action refuse() {
    meta.access = access_t.NONE;
    meta.outcome = outcome_t.MALFORMED;
}
