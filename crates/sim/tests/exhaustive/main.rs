//! Exhaustive search of ATP, ESA, P4INC and SwitchML: every order in which a few packets, messages
//! and timers can come.
//!
//! | file | concern |
//! | --- | --- |
//! | `endpoints` | the real workers and PSs, and their clocks |
//! | `hardware` | the real P4 program, pass by pass |
//! | `text` | what of an endpoint's state can have an effect |
//! | `system` | the parts of a system and their single steps |
//! | `store` | each state, packet, message and step once, by number |
//! | `model` | states and steps of the whole, and what must hold |
//! | `cases` | what is searched of ESA by default, and on demand |
//! | `segments` | what is searched of P4INC and SwitchML |
//! | `runs` | two runs of one job |
//! | `atp` | what is searched of ATP: its PS is replaced |
//! | `broken` | programs with a fault in them, which the search must find |
//!
//! Nothing is modelled but the network. Workers are `protocol::Worker`; a job's PS is
//! `protocol::ParameterServer`, with ESA `protocol::esa::Backend`, which has the reminder agent in
//! it, and a local job of P4INC or SwitchML has none; the switch is the P4 program in the dataplane
//! with the controller's entries. With ESA there is one cell, so that all tasks want the same; with
//! P4INC a job has the smallest segment that its window allows, or a smaller one if it is summed in
//! two units; with SwitchML it has the two versions of each slot. stateright does the searching,
//! breadth first, so that what it finds is short.
//!
//! # What can happen
//!
//! - A packet on its way arrives, in any order with all others (**reordering and delay** without
//!   bound), at a switch or at a host; each link is a way of its own.
//! - A packet never arrives. That is how **loss** is covered, without bound: whatever can be
//!   reached with a packet lost can be reached with it late.
//! - A packet arrives and will again (**duplication**), so many times.
//! - A packet that was resubmitted takes its next **pass**, any time later: others come between.
//! - The first message of a reliable channel arrives.
//! - The next **timer** of a worker or an agent fires, if it has something to do; so many times.
//! - A worker begins (where starts are late); a PS is **replaced** by one that knows nothing, and
//!   its channels break; so many times.
//!
//! # What must hold, in every state
//!
//! - I1, I2, I6: a sum that a worker takes is the one sum that is right. Each contribution is a
//!   digit of its own, so no other combination looks like it.
//! - I3, I4: each content of the cell that comes up is tried out: a sweep of its job frees it, one
//!   of another job does not touch it, and another task of the lowest priority takes it after at
//!   most eight collisions (ESA). The sweep leaves nothing of the copies (P4INC).
//! - I7: from the state on, with no more faults, everything completes, and the PSs have nothing
//!   left to ask for. This is checked for what is on its way as it is, for all of it lost, and for
//!   each one packet of it lost, by a run that delivers everything and fires timers when all is
//!   quiet.
//! - What a free cell's other registers hold has no effect, nor what is left of a sum of which
//!   there is a copy (each pass is taken with two contents).
//! - Nothing panics, fails or reports a stall.
//!
//! # What is left out
//!
//! Congestion: windows are constant, nothing is marked. ESA's floats (I5): all values fit (those of
//! P4INC and SwitchML need not). Three later results or contributions: with two fragments there are
//! not three. The lengths of timeouts: all are one length, so timers fire in any order between
//! endpoints, but those that one endpoint set since its last timer fire together. Two losses chosen
//! apart from each other in the fair runs.

mod atp;
mod broken;
mod cases;
mod endpoints;
mod hardware;
mod model;
mod rack;
mod runs;
mod segments;
mod store;
mod system;
mod text;
