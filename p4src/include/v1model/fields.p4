// Fields that every program's metadata has: part of `metadata_t`.

bit<1>         well_formed;
bit<1>         barred;   // plain traffic in which a host could find a packet of ours
bit<1>         ours;     // a packet of the program's protocol, right as far as it shows
job_t          payer;    // the job that the packet names; 0: none
@field_list(KEPT)
color_t        color;    // whether its port sends more than it may

// From the membership table.
bit<1>         member;   // the job, the kind and the port belong together
bit<1>         transit;  // this switch only forwards the job
bitmap_t       unit;     // the workers that one fresh packet from this port speaks for
bitmap_t       members;  // the workers whose packets meet in this switch
bitmap_t       upward;   // the positions that their sum is called after
group_t        group;    // where results go; 0: nowhere
job_slot_t     slot;

// What the packet does to its aggregator, and what happens to the packet.
access_t       access;
bitmap_t       held;     // before this packet: pool: who is in; segments: who is missing
bit<1>         last;     // with the packet's, of the same task, there are all members' values
bit<1>         mark;     // congestion met by any packet of the task so far
value_access_t value_access;
index_t        end;      // behind the last aggregator of a sweep
bit<1>         forward;
outcome_t      outcome;

// Set before a resubmit: what the next pass is for.
@field_list(KEPT)
pass_t         pass;
// Where the packet came in; another pass starts with all standard metadata but this lost.
@field_list(KEPT)
port_t         port;
