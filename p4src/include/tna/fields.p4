// Fields that every program's metadata begins with: part of `metadata_t`.

bool           damaged;    // the checksum of the IPv4 header is wrong
bit<1>         barred;     // plain traffic in which a host could find a packet of ours
port_t         port;       // where the packet came in
bit<1>         ours;       // a packet of the program's protocol, right as far as it shows
job_t          payer;      // the job that the packet names; 0: none
color_t        color;      // whether its port sends more than it may
bit<1>         sweep;      // or one of the controller's sweeps
bit<1>         entering;   // or such a sweep that has just come, maybe to another pipe
bit<1>         chosen;     // the packet's port is known, and forwarding is not asked …
port_t         way;        // … for it
pass_t         pass;       // which time the packet goes through, and why

// From the membership table.
bit<1>         member;     // the job, the kind and the port belong together
bit<1>         transit;    // this switch only forwards the job
bitmap_t       unit;       // the workers that one fresh packet from this port speaks for
bitmap_t       members;    // the workers whose packets meet in this switch
bitmap_t       upward;     // the positions that their sum is called after
group_t        group;      // where results go; 0: nowhere
job_slot_t     slot;
bitmap_t       difference; // of the packet's bitmap and the unit
bitmap_t       foreign;    // those in the packet's bitmap who are not below its port (ATP, ESA)
bitmap_t       others;     // difference of the packet's bitmap and the members
