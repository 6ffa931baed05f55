//! Reminder agent: fetches partial sums of ESA jobs from switches.
//!
//! The protocol is in `tributary-protocol`, the channel to workers and parameter servers in
//! [`tributary_endpoint::driver::channel`]. This crate is for agents with a host of their own; by default an
//! agent shares the process of the parameter server (`tributary-ps`). [`daemon`] is `tributary
//! reminder`.

pub mod daemon;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use tracing::info_span;
use tributary_endpoint::driver::Driver;
use tributary_endpoint::driver::channel::Hub;
use tributary_endpoint::jobs_at;
use tributary_metrics::Board;
use tributary_model::{Deployment, HostId};
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::esa::Backend;
use tributary_ps::numbers::{Numbers, Publisher, of_backend};

/// Sleep between two checks of the stop flag.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs an agent until `stop` is raised: reminder packets over the port, messages over the hub. It
/// publishes its numbers on the board. `waker` is the hub's. Returns the agent, for its counters.
///
/// The hub must serve the agent's jobs, with servers that connect.
///
/// # Errors
/// Those of the port.
pub fn serve(
    agent: Backend,
    hub: &mut Hub,
    io: Box<dyn FrameIo>,
    waker: Waker,
    stop: &AtomicBool,
    board: &Board<Numbers>,
) -> io::Result<Backend> {
    let _span = info_span!("agent").entered();
    let mut driver = Driver::new(agent, io).with_waker(waker);
    let mut publisher = Publisher::new(board);
    while !stop.load(Ordering::Relaxed) {
        driver.turn_with(PATIENCE, |now, agent| {
            publisher.look(now, || of_backend(agent, now));
            hub.exchange(now, agent)
        })?;
    }
    Ok(driver.into_endpoint())
}

/// The agent of the jobs that have it on a host without their parameter server; `None` without such
/// jobs.
///
/// # Errors
/// If their settings contradict each other.
pub fn agent(deployment: &Deployment, host: HostId) -> Result<Option<Backend>> {
    let mut backend = Backend::default();
    for (index, _) in
        jobs_at(deployment, host, |job| job.agent).filter(|(_, job)| job.ps != Some(host))
    {
        if let Some(config) = deployment.agent(index)? {
            backend.add_agent(config)?;
        }
    }
    Ok((!backend.is_empty()).then_some(backend))
}
