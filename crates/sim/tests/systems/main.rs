//! Whole systems in virtual time: named cases, and invariants under random faults.

mod capture;
mod cases;
mod charts;
mod courses;
mod esa;
mod exact;
mod figures;
mod invariants;
mod isolation;
mod links;
mod losses;
mod p4inc;
mod pacing;
mod priorities;
mod racks;
mod random;
mod rounding;
mod super_frames;
mod walks;
