//! What was seen on the cables, to read why a seed failed.

use std::fmt;

use tributary_wire::agg::{Packet, Repr};

/// One frame that arrived.
#[derive(Clone, PartialEq, Debug)]
pub struct Sighting {
    /// Nanoseconds.
    pub time: u64,
    /// Who sent it.
    pub from: String,
    /// Where it arrived.
    pub to: String,
    /// Its aggregation header; `None` for other frames.
    pub header: Option<Repr>,
}

/// Frames in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    sightings: Vec<Sighting>,
}

impl Trace {
    pub(crate) fn record(&mut self, time: u64, from: &str, to: &str, frame: &[u8]) {
        let header = Packet::new_checked(frame).ok().map(|packet| *packet.repr());
        self.sightings.push(Sighting { time, from: from.into(), to: to.into(), header });
    }

    /// The frames.
    pub fn sightings(&self) -> &[Sighting] {
        &self.sightings
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Sighting { time, from, to, header } in &self.sightings {
            write!(f, "{:>12.3} µs  {from:>6} → {to:<6}", *time as f64 / 1e3)?;
            match header {
                Some(header) => writeln!(
                    f,
                    "  {:<9?} job {} seq {:>4} bits {:08b} cell {:>4} {:?}",
                    header.kind,
                    header.job.get(),
                    header.sequence.0,
                    header.bitmap.0,
                    header.index.0,
                    header.flags,
                )?,
                None => writeln!(f, "  another frame")?,
            }
        }
        Ok(())
    }
}
