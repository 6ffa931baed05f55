//! An emulated cross-connect.

use std::fmt;

use tributary_metrics::{Page, Source};
use tributary_optical::crossconnect::emulated::Control;

use super::wait;

/// The mirrors between the ports of a cross-connect.
#[derive(Debug)]
pub(crate) struct Mirror(pub(crate) Control);

impl Source for Mirror {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let circuits = wait(self.0.circuits()).and_then(Result::ok);
        page.gauge(
            "tributary_crossconnect_circuits",
            "Circuits that carry light",
            circuits.map(|circuits| ([], circuits.len() as f64)),
        )?;
        page.gauge(
            "tributary_crossconnect_ports",
            "Ports of the cross-connect",
            [([], f64::from(self.0.ports()))],
        )?;
        let (forwarded, lost) = self.0.frames();
        page.counter(
            "tributary_crossconnect_forwarded_frames_total",
            "Frames that left by the other port of their circuit",
            [([], forwarded)],
        )?;
        page.counter(
            "tributary_crossconnect_lost_frames_total",
            "Frames with a circuit that were lost because an interface was full, or its MTU too small",
            [([], lost)],
        )
    }
}
