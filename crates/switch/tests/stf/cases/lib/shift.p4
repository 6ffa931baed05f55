// Included twice by `preprocessor.p4`, once with effect.
#ifndef SHIFT_P4
#define SHIFT_P4
#define SHIFT(value, by) ((value) << (by))
#else
#define INCLUDED_TWICE
#endif
