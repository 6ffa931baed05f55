//! Captures of frames in the pcapng format, for Wireshark and other analysers.
//!
//! A [`Recorder`] writes a file; its clones take frames from several threads. A [`Tap`] is a port that
//! gives its frames to a recorder. It does not interpret frames.
//! Start reading at [`Recorder`].

mod format;
mod queue;
mod recorder;
mod tap;

pub use format::{Direction, Frame, Interface};
pub use recorder::{Buffer, Recorder, Summary, now};
pub use tap::Tap;
