//! The controller against the embedded switch, BMv2 and a Tofino's control plane.

mod bmv2;
mod embedded;
mod support;
mod tofino;
