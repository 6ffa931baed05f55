//! Dissectors of the repository's P4 programs and of random ones, run in an interpreter of Lua with a
//! stand-in for Wireshark, beside the switch's own parser.

mod agreement;
mod layouts;
mod programs;
mod screen;
