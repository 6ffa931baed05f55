//! The suite in the interpreter, and both engines side by side.

#[path = "suite/agreement.rs"]
mod agreement;
#[path = "suite/psa_agreement.rs"]
mod psa_agreement;
#[path = "suite/replaced.rs"]
mod replaced;
#[path = "suite/replay.rs"]
mod replay;
mod suite;
