//! The embedded switch: ports, queues, multicast and a P4Runtime server around a P4 program
