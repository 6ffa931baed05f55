//! P4_16 front end: preprocess, parse, check, lower to a typed IR, P4Info
