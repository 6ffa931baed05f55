//! What the kernel knows of a network interface.
