//! Parameter-server runtime: the servers of one host, on one port.
//!
//! The protocol is in `tributary-protocol`; this crate adds a port, a thread, and for ESA the
//! reliable channel. [`Servers`] lets several jobs, of any protocol, share the port; [`serve`] runs
//! them until it is stopped. The reminder agent of an ESA job also runs in this process, unless it
//! has a host of its own. [`daemon`] is `tributary ps`; its reports are in [`report`], and the numbers
//! of running servers in [`numbers`]. `steps` follows the iterations of jobs.

mod assembly;
mod channels;
pub mod daemon;
pub mod numbers;
pub mod report;
mod servers;
mod steps;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::info_span;
use tributary_endpoint::driver::Driver;
use tributary_metrics::Board;
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::Endpoint;
use tributary_protocol::server::Event;
use tributary_wire::JobId;

pub use assembly::{channels, servers};
pub use channels::{Channels, ServerLink};
use numbers::{Numbers, Publisher};
pub use servers::{ServerJob, Servers};

/// Sleep between two checks of the stop flag.
const PATIENCE: Duration = Duration::from_millis(50);

/// Who attends to the servers of a port while they [serve](serve()).
pub trait Attendant {
    /// Before each turn, the servers may be changed.
    fn look(&mut self, _servers: &mut Servers) {}

    /// Something has happened to a job.
    fn hear(&mut self, job: JobId, event: Event);
}

impl<F: FnMut(JobId, Event)> Attendant for F {
    fn hear(&mut self, job: JobId, event: Event) {
        self(job, event);
    }
}

/// Serves until `stop` is raised, and publishes the servers' numbers on the board. `waker` ends a sleep: it is the one
/// that the channels were made with. Returns the servers, for their counters.
///
/// # Errors
/// Those of the port.
pub fn serve(
    servers: Servers,
    channels: &mut Channels,
    io: Box<dyn FrameIo>,
    waker: Option<Waker>,
    stop: &AtomicBool,
    board: &Board<Numbers>,
    attendant: &mut dyn Attendant,
) -> io::Result<Servers> {
    let jobs = servers.reports().map(|(job, _)| job.get()).collect::<Vec<_>>();
    let _span = info_span!("servers", ?jobs).entered();
    let mut driver = Driver::new(servers, io);
    if let Some(waker) = waker {
        driver = driver.with_waker(waker);
    }
    let mut publisher = Publisher::new(board);
    while !stop.load(Ordering::Relaxed) {
        attendant.look(driver.endpoint_mut());
        driver.turn_with(PATIENCE, |now, servers| {
            publisher.look(now, || servers.numbers(now));
            channels.exchange(now, servers)
        })?;
        while let Some((job, event)) = driver.endpoint_mut().poll_event() {
            attendant.hear(job, event);
        }
    }
    Ok(driver.into_endpoint())
}
