//! Parameter-server runtime: the servers of one host, on one port.
//!
//! The protocol is in `tributary-protocol`; here it gets a port and a thread. [`Servers`] lets several
//! jobs share the port, [`serve`] runs them until it is told to stop.

mod servers;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tributary_driver::Driver;
use tributary_netio::FrameIo;
use tributary_protocol::Endpoint;
use tributary_protocol::server::Event;
use tributary_wire::JobId;

pub use servers::Servers;

/// How long the thread sleeps before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Serves until `stop` is raised, and tells `report` what the servers have to say. Returns the
/// servers, for their counters.
///
/// # Errors
/// Those of the port.
pub fn serve(
    servers: Servers,
    io: impl FrameIo,
    stop: &AtomicBool,
    mut report: impl FnMut(JobId, Event),
) -> io::Result<Servers> {
    let mut driver = Driver::new(servers, io);
    while !stop.load(Ordering::Relaxed) {
        driver.turn(PATIENCE)?;
        while let Some((job, event)) = driver.endpoint_mut().poll_event() {
            report(job, event);
        }
    }
    Ok(driver.into_endpoint())
}
