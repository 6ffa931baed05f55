//! Job files: topology, jobs, protocol and faults, checked
