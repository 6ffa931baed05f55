//! Optical cross-connects: which of their ports are joined, and how to change that.
//!
//! A cross-connect joins ports with [`Circuits`]. Light passes it in both directions of a circuit, and
//! is lost at all other ports.

mod circuits;

pub use circuits::{Circuits, Invalid, Port};
