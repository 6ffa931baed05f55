//! Jobs whose client lets each iteration begin, with endpoints as processes in network namespaces.
//!
//! The test is that client. Two units are joined by a link:
//!
//! ```text
//! a1, a2, server ── s1 ── s2 ── b1, b2
//! ```

mod failures;
mod moves;
mod net;
mod pacing;
