// The group of a job's workers, to which results are addressed: 01:00:5e:54:(job), 239.84.(job).
#ifndef GROUPS_P4
#define GROUPS_P4

const bit<32> GROUP_MAC = 0x01005e54;
const bit<16> GROUP_IPV4 = 0xef54;

#endif
