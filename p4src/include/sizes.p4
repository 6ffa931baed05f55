// Sizes that a build fixes. Each can be set on the compiler's command line (-D NAME=VALUE).
#ifndef SIZES_P4
#define SIZES_P4

// 32-bit values that one packet carries; 2048 need jumbo frames.
#ifndef VALUES
#define VALUES 64
#endif

// Aggregators of the pool, which all jobs share (ATP, ESA) or have segments of (P4INC, SwitchML). No
// host may name an index that is not below this.
#ifndef POOL
#define POOL 4096
#endif

// An aggregator that nobody used for this long, in microseconds, may be taken over by another
// task: its own task is over, or its packets are gone.
#ifndef IDLE_US
#define IDLE_US 50000
#endif

// Who may evict whom from an aggregator (ESA): 0 the higher priority, 1 everybody, 2 whom a coin
// favours.
#ifndef PREEMPTION
#define PREEMPTION 0
#endif

// The code of priorities (ESA): 0 logarithmic, 1 linear. Lowering one halves the value that it stands for.
#ifndef LINEAR_PRIORITIES
#define LINEAR_PRIORITIES 0
#endif

// Packets in an egress queue from which on the switch marks congestion experienced.
#ifndef ECN_THRESHOLD
#define ECN_THRESHOLD 64
#endif

// Entries of the tables.
#define HOSTS 2048
#define ROUTES 1024
#define MEMBERSHIPS 4096
#define SERVICES 512
#define LIMITS 2048
#define FLOWS 2048

// Jobs that are counted apart from each other; slot 0 counts what belongs to no job.
#define JOB_SLOTS 256

// Values are handled in blocks: FOR_EACH_BLOCK(M) expands to M(0) M(1) … for all blocks, and
// FOR_EACH_LANE(M) to M(0) M(1) … for the values of one block. The simulator uses 62 values, the packets
// of the papers, and 1 where only times matter.
#if VALUES == 1 || VALUES == 32
#define FOR_EACH_BLOCK(M) M(0)
#elif VALUES == 62 || VALUES == 64
#define FOR_EACH_BLOCK(M) M(0) M(1)
#elif VALUES == 256
#define FOR_EACH_BLOCK(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#elif VALUES == 2048
#define FOR_EACH_BLOCK(M) \
    M(0)  M(1)  M(2)  M(3)  M(4)  M(5)  M(6)  M(7)  M(8)  M(9)  M(10) M(11) M(12) M(13) M(14) M(15) \
    M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23) M(24) M(25) M(26) M(27) M(28) M(29) M(30) M(31) \
    M(32) M(33) M(34) M(35) M(36) M(37) M(38) M(39) M(40) M(41) M(42) M(43) M(44) M(45) M(46) M(47) \
    M(48) M(49) M(50) M(51) M(52) M(53) M(54) M(55) M(56) M(57) M(58) M(59) M(60) M(61) M(62) M(63)
#else
#error "VALUES must be 1, 32, 62, 64, 256 or 2048"
#endif

#if VALUES == 1
#define FOR_EACH_LANE(M) M(0)
#elif VALUES == 62
#define FOR_EACH_LANE(M) FOR_EACH_OF_31(M)
#else
#define FOR_EACH_LANE(M) FOR_EACH_OF_31(M) M(31)
#endif

#define FOR_EACH_OF_31(M) \
    M(0)  M(1)  M(2)  M(3)  M(4)  M(5)  M(6)  M(7)  M(8)  M(9)  M(10) M(11) M(12) M(13) M(14) M(15) \
    M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23) M(24) M(25) M(26) M(27) M(28) M(29) M(30)

#endif
