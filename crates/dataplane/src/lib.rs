//! Runs the P4 IR packet by packet with the semantics of BMv2's simple_switch
