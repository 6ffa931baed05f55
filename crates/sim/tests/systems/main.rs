//! Whole systems in virtual time: named cases, and invariants under random faults.

mod cases;
mod exact;
mod invariants;
mod random;
