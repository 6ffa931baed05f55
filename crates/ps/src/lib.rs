//! Parameter-server runtime: the servers of one host, on one port.
//!
//! The protocol is in `tributary-protocol`; here it gets a port, a thread, and for ESA the reliable
//! channel. [`Servers`] lets several jobs share the port, of whatever protocol; [`serve`] runs them
//! until it is told to stop. The reminder agent of an ESA job is in this process too, unless it has a
//! host of its own. [`daemon`] is `tributary ps`, [`report`] what it reports.

mod assembly;
mod channels;
pub mod daemon;
pub mod report;
mod servers;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tributary_driver::Driver;
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::Endpoint;
use tributary_protocol::server::Event;
use tributary_wire::JobId;

pub use assembly::{channels, servers};
pub use channels::{Channels, ServerLink};
pub use servers::{Job, Servers, Stats};

/// How long the thread sleeps before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Serves until `stop` is raised, and tells `report` what the servers have to say. `waker` is the one
/// that the channels were made with. Returns the servers, for their counters.
///
/// # Errors
/// Those of the port.
pub fn serve(
    servers: Servers,
    channels: &mut Channels,
    io: Box<dyn FrameIo>,
    waker: Waker,
    stop: &AtomicBool,
    report: &mut dyn FnMut(JobId, Event),
) -> io::Result<Servers> {
    let mut driver = Driver::new(servers, io);
    if !channels.is_empty() {
        driver = driver.with_waker(waker);
    }
    while !stop.load(Ordering::Relaxed) {
        driver.turn_with(PATIENCE, |now, servers| channels.exchange(now, servers))?;
        while let Some((job, event)) = driver.endpoint_mut().poll_event() {
            report(job, event);
        }
    }
    Ok(driver.into_endpoint())
}
