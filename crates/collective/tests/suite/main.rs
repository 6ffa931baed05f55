//! Groups of every kind.

mod common;
mod groups;
mod hosts;
mod memory;
