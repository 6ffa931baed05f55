// PSA with the methods that p4c's back end for DPDK adds.
#define TRIBUTARY_PSA_OF_DPDK
#include <psa.p4>
