//! The reliable channels of a host's ESA servers.

use tributary_endpoint::driver::channel::{Hub, Link, LinkEvent};
use tributary_protocol::Time;
use tributary_protocol::esa::Backend;
use tributary_wire::JobId;
use tributary_wire::channel::{FromServer, ToServer};

use crate::Servers;

/// Most messages of one channel per turn, so that packets are also handled.
const BATCH: usize = 256;

/// The channel of a server to the agent of its job, on another host.
pub type ServerLink = Link<ToServer, FromServer>;

/// The TCP channels of a host's servers. ATP's servers have none.
#[derive(Debug, Default)]
pub struct Channels {
    /// For workers of jobs whose agent is in this process.
    hub: Option<Hub>,
    /// To the agents of the other jobs.
    links: Vec<Linked>,
}

#[derive(Debug)]
struct Linked {
    job: JobId,
    link: ServerLink,
    open: bool,
}

impl Channels {
    /// A hub, for the jobs whose agent is in this process, and a link for each other job.
    #[must_use]
    pub fn new(hub: Option<Hub>, links: impl IntoIterator<Item = (JobId, ServerLink)>) -> Self {
        let links = links.into_iter().map(|(job, link)| Linked { job, link, open: false });
        Self { hub, links: links.collect() }
    }

    /// Whether there is neither hub nor link.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hub.is_none() && self.links.is_empty()
    }

    /// The hub, for its counters.
    #[must_use]
    pub fn hub(&self) -> Option<&Hub> {
        self.hub.as_ref()
    }

    /// Sends and receives messages. Returns whether there were any.
    pub(crate) fn exchange(&mut self, now: Time, servers: &mut Servers) -> bool {
        let backend = servers.backend_mut();
        let mut moved = self.hub.as_mut().is_some_and(|hub| hub.exchange(now, backend));
        for linked in &mut self.links {
            moved |= linked.exchange(now, backend);
        }
        moved
    }
}

impl Linked {
    fn exchange(&mut self, now: Time, backend: &mut Backend) -> bool {
        let mut moved = false;
        for _ in 0..BATCH {
            let Some(event) = self.link.poll() else { break };
            moved = true;
            match event {
                LinkEvent::Opened => {
                    self.open = true;
                    backend.agent_opened(self.job);
                }
                LinkEvent::Closed => self.open = false,
                LinkEvent::Message(message) => backend.handle_agent(now, self.job, message),
                // The link has logged it and keeps trying.
                LinkEvent::Refused(_) => {}
            }
        }
        // While the channel is closed, messages are dropped: all state is sent again when it opens.
        while !self.open || self.link.has_room() {
            let Some(message) = backend.poll_to_agent(self.job) else { break };
            moved = true;
            if self.open {
                self.link.send(&message);
            }
        }
        moved
    }
}
