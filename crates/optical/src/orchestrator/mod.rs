//! The network controller of P4INC-AOI (§III): in each time slot, it decides where jobs are summed, which
//! circuits there are, and how fast workers send, and has all parts of the network do so.
//!
//! | module | content |
//! | --- | --- |
//! | [`planner`] | from the state of jobs and circuits to the [`Plan`](planner::Plan) of a slot; no I/O |
//! | [`ports`] | from circuits between units to those between ports |
//! | [`slots`] | carries out plans on a [`Plant`](slots::Plant), slot after slot |
//! | [`live`] | the plant of real switches: controller, cross-connect |
//! | [`simulated`] | the plant of the simulator |
//! | [`journal`] | what must survive a restart, in a database |
//!
//! A job waits at its parameter server, without circuits, until a slot has bandwidth for its next
//! iteration. Between iterations it may move between that server and its switch. An iteration that has
//! begun keeps a rate until it ends.
//!
//! What goes wrong stays where it is: jobs whose circuits could not be made wait, all others go on, and
//! the next slots try again. A job whose iteration takes too long is released.
//!
//! Start reading at [`slots::slot`].

pub mod journal;
pub mod live;
pub mod planner;
pub mod ports;
pub mod simulated;
pub mod slots;
mod store;
