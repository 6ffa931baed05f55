//! Explains packets: everything that a P4 program and the switch around it did to a packet and its
//! copies, as a tree of [`Node`]s, in text and JSON.
//!
//! The switch records the steps ([`crate::trace`]). `tree` makes a tree of them, with
//! the program's names. [`Explainer`] sends a packet through a switch of its own, and, for all
//! possible outcomes, as often as there are any: [`forks`] merges the recordings.
//! `docs/reference/trace.md` describes what is shown, and the JSON.

mod explain;
mod fold;
pub mod forks;
mod json;
mod names;
mod node;
mod text;
mod tree;

pub use explain::{Explained, Explainer, Refused};
pub use json::{VERSION, json};
pub use node::{Kind, Node};
pub use text::text;
pub use tree::tree;
