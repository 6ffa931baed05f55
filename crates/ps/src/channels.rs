//! The reliable channels of a host's ESA servers.

use tributary_protocol::Time;
use tributary_reminder::{Hub, Incoming, Link, LinkEvent};
use tributary_wire::JobId;
use tributary_wire::channel::{FromServer, ToServer};

use crate::Servers;

/// Messages taken from one channel in one turn before packets get their chance.
const BATCH: usize = 256;

/// The channel of a server to the agent of its job, on another host.
pub type ServerLink = Link<ToServer, FromServer>;

/// What the servers of a host say and hear over TCP. ATP's have nothing of it.
#[derive(Debug, Default)]
pub struct Channels {
    /// Where workers of jobs whose agent is in this process connect.
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

    /// Carries messages both ways. Returns whether there were any.
    pub(crate) fn exchange(&mut self, now: Time, servers: &mut Servers) -> bool {
        let mut moved = false;
        if let Some(hub) = &mut self.hub {
            for _ in 0..BATCH {
                let Some(incoming) = hub.poll() else { break };
                moved = true;
                if let Incoming::Worker(job, worker, message) = incoming {
                    servers.together_mut().handle_worker(now, job, worker, message);
                }
            }
            while let Some((job, worker, message)) = servers.together_mut().poll_message() {
                moved = true;
                // For a worker that is not there it is lost: the agent asks again by its timer.
                hub.send_worker(job, worker, &message);
            }
        }
        for linked in &mut self.links {
            moved |= linked.exchange(now, servers);
        }
        moved
    }
}

impl Linked {
    fn exchange(&mut self, now: Time, servers: &mut Servers) -> bool {
        let Some(server) = servers.apart_mut(self.job) else { return false };
        let mut moved = false;
        for _ in 0..BATCH {
            let Some(event) = self.link.poll() else { break };
            moved = true;
            match event {
                LinkEvent::Opened => {
                    self.open = true;
                    server.channel_opened();
                }
                LinkEvent::Closed => self.open = false,
                LinkEvent::Message(message) => server.handle_message(now, message),
                // The link has said it in the log, and goes on trying.
                LinkEvent::Refused(_) => {}
            }
        }
        // While nobody listens nothing is kept: all is said again when the channel opens.
        while !self.open || self.link.has_room() {
            let Some(message) = server.poll_message() else { break };
            moved = true;
            if self.open {
                self.link.send(&message);
            }
        }
        moved
    }
}
