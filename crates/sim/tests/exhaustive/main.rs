//! Exhaustive search of ATP, ESA, P4INC and SwitchML: all orders of a few packets, messages and
//! timers.
//!
//! | file | content |
//! | --- | --- |
//! | `endpoints` | the real workers and PSs, and their clocks |
//! | `hardware` | the real P4 program, pass by pass |
//! | `text` | the part of an endpoint's state that can have an effect |
//! | `system` | the parts of a system and their single steps |
//! | `store` | each state, packet, message and step once, by number |
//! | `model` | states and steps of the whole system, and the checks |
//! | `cases` | the searches of ESA, by default and on demand |
//! | `segments` | the searches of P4INC and SwitchML |
//! | `runs` | two runs of one job |
//! | `atp` | the searches of ATP: its PS is replaced |
//! | `broken` | programs with a fault, which the search must find |
//!
//! Only the network is modelled. Workers are `protocol::Worker`. A job's PS is
//! `protocol::ParameterServer`, with ESA `protocol::esa::Backend`, which includes the reminder
//! agent; a local job of P4INC or SwitchML has none. The switch is the P4 program in the dataplane
//! with the controller's entries. With ESA there is one cell, so that all tasks compete for it;
//! with P4INC a job has the smallest segment that its window allows, or a smaller one if it is
//! summed in two units; with SwitchML it has the two versions of each slot. stateright searches
//! breadth first, so that counterexamples are short.
//!
//! # Steps
//!
//! - A packet in flight arrives at a switch or a host, in any order with all others (**reordering
//!   and delay** without bound); each link is a separate path.
//! - A packet never arrives. This covers **loss** without bound: any state that can be reached with
//!   a lost packet can be reached with a late one.
//! - A packet arrives and stays in flight (**duplication**), a bounded number of times.
//! - A resubmitted packet takes its next **pass** at any later time: others come between.
//! - The first message of a reliable channel arrives.
//! - The next **timer** of a worker or an agent fires, if it has an effect; a bounded number of
//!   times.
//! - A worker begins (if starts are late); a PS is **replaced** by one without state, and its
//!   channels break; a bounded number of times.
//!
//! # Checks in every state
//!
//! - I1, I2, I6: a worker's sum is the only correct one. Each contribution is a separate digit, so
//!   no other combination has the same sum.
//! - I3, I4: each new content of the cell is tested: a sweep of its job frees it, a sweep of
//!   another job does not change it, and another task of the lowest priority takes it after at most
//!   43 collisions (ESA). The sweep leaves nothing of the copies (P4INC).
//! - I7: without further faults everything completes from this state on, and the PSs have no open
//!   requests. This is checked with all packets in flight delivered, with all lost, and with each
//!   single one lost, by a run that delivers everything and fires timers when nothing else happens.
//! - The other registers of a free cell have no effect, nor does the rest of a sum with a copy
//!   (each pass is repeated with other contents).
//! - Nothing panics, fails or reports a stall.
//!
//! # Not covered
//!
//! Congestion: windows are constant, no packet is marked. ESA's floats (I5): all values fit (those
//! of P4INC and SwitchML need not). Three later results or contributions: with two fragments there
//! are not three. The lengths of timeouts: all are equal, so timers of different endpoints fire in
//! any order, but those that one endpoint set since its last timer fire together. Independent
//! combinations of two losses in the fair runs.

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
