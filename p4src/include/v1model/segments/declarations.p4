// The beginning of the ingress control of P4INC and SwitchML: blocks that both have, and the actions and
// bits of both tables of intents. The control goes on with what is the program's own, and ends with
// apply.p4.

Screening() screening;
Limits() limits;
Owners() owners;
Fill() fill;
Membership() membership;
Services() services;
Rounds() rounds;
Flags() flags;
Values() values;
TurnBack() turn_back;
Announce() announce;
Forwarding() forwarding;
Outcomes() outcomes;

bit<1> numbered = 0; // there is a round of that number
bit<1> own = 0;      // bitmap is the one worker below this port

action touch(access_t access) {
    meta.access = access;
}

action pass(outcome_t outcome) {
    meta.outcome = outcome;
    meta.forward = 1;
}

action refuse(outcome_t outcome) {
    meta.outcome = outcome;
}
