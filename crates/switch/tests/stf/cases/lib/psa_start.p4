// What cases for PSA start with.

#include <core.p4>
#include <psa.p4>

struct empty_t {}
