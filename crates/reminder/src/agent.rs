//! The agent on a host of its own.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tributary_driver::Driver;
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::Time;
use tributary_protocol::esa::{Agent, ToPeer};
use tributary_wire::channel::Role;

use crate::{Hub, Incoming, Peer};

/// How long the thread sleeps before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Messages taken in one turn before packets get their chance.
const BATCH: usize = 256;

/// Runs an agent until `stop` is raised: reminder packets over the port, messages over the hub.
/// `waker` is the hub's. Returns the agent, for its counters.
///
/// The hub must serve the agent's jobs, with servers that connect.
///
/// # Errors
/// Those of the port.
pub fn serve(
    agent: Agent,
    hub: &mut Hub,
    io: impl FrameIo,
    waker: Waker,
    stop: &AtomicBool,
) -> io::Result<Agent> {
    let mut driver = Driver::new(agent, io).with_waker(waker);
    while !stop.load(Ordering::Relaxed) {
        driver.turn_with(PATIENCE, |now, agent| exchange(now, agent, hub))?;
    }
    Ok(driver.into_endpoint())
}

/// Messages in, messages out.
fn exchange(now: Time, agent: &mut Agent, hub: &mut Hub) -> bool {
    let mut moved = false;
    for _ in 0..BATCH {
        let Some(incoming) = hub.poll() else { break };
        moved = true;
        match incoming {
            Incoming::Worker(job, worker, message) => {
                agent.handle_worker(now, job, worker, message);
            }
            Incoming::Server(job, message) => agent.handle_server(now, job, message),
            Incoming::Opened(Peer { job, role: Role::Server }) => agent.server_opened(job),
            Incoming::Opened(_) | Incoming::Closed(_) => {}
        }
    }
    while let Some(message) = agent.poll_message() {
        moved = true;
        // For a peer that is not there it is lost: the agent asks again when its timer fires.
        match message {
            ToPeer::Worker { job, worker, message } => hub.send_worker(job, worker, &message),
            ToPeer::Server { job, message } => hub.send_server(job, &message),
        };
    }
    moved
}
