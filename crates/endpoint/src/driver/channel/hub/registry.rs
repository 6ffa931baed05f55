//! The jobs of a hub, and the connected peers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::ServerConfig;
use tokio::sync::mpsc;
use tributary_netio::Waker;
use tributary_wire::JobId;
use tributary_wire::channel::{Answer, Hello, Refusal, Role};

use super::stats::Counters;
use super::{HubJob, Incoming, Peer};
use crate::driver::channel::Limits;
use crate::driver::channel::complaints::Complaints;
use crate::driver::channel::outbox::Outbox;
use crate::driver::channel::secrecy;

/// State shared by the hub and its thread.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) counters: Counters,
    pub(super) complaints: Complaints,
    waker: Waker,
    incoming: mpsc::Sender<Incoming>,
    jobs: Mutex<BTreeMap<JobId, Served>>,
}

/// A job and its peers.
#[derive(Debug)]
struct Served {
    job: HubJob,
    tls: Arc<ServerConfig>,
    peers: BTreeMap<Role, Arc<Outbox>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.peers.values().for_each(|outbox| outbox.end());
    }
}

/// A peer that was admitted.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) peer: Peer,
    pub(super) values: u16,
    pub(super) outbox: Arc<Outbox>,
    /// Whether an older connection of the peer was closed for it.
    pub(super) replaces: bool,
}

impl Shared {
    pub(super) fn new(limits: Limits, waker: Waker, incoming: mpsc::Sender<Incoming>) -> Self {
        Self {
            limits,
            counters: Counters::default(),
            complaints: Complaints::default(),
            waker,
            incoming,
            jobs: Mutex::default(),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobId, Served>> {
        self.jobs.lock().expect("nobody panics with it")
    }

    pub(super) fn add(&self, job: HubJob) {
        let tls = secrecy::server(&job.token);
        self.jobs().insert(job.id, Served { job, tls, peers: BTreeMap::new() });
    }

    /// How to encrypt a connection of a job's peer; `None` if the job is not served.
    pub(super) fn tls(&self, job: JobId) -> Option<Arc<ServerConfig>> {
        self.jobs().get(&job).map(|served| Arc::clone(&served.tls))
    }

    pub(super) fn remove(&self, job: JobId) {
        self.jobs().remove(&job);
    }

    pub(super) fn outbox(&self, peer: Peer) -> Option<Arc<Outbox>> {
        self.jobs().get(&peer.job)?.peers.get(&peer.role).cloned()
    }

    pub(super) fn peers(&self) -> Vec<Peer> {
        let jobs = self.jobs();
        let peers = jobs
            .iter()
            .flat_map(|(&job, served)| served.peers.keys().map(move |&role| Peer { job, role }));
        peers.collect()
    }

    /// Admits a peer with a valid greeting, in place of an older connection of the same peer.
    pub(super) fn admit(&self, hello: &Hello) -> Result<Admission, Refusal> {
        let mut jobs = self.jobs();
        let served = jobs.get_mut(&hello.job).ok_or(Refusal::Job)?;
        if served.job.token != hello.token {
            return Err(Refusal::Token);
        }
        if served.job.epoch != hello.epoch {
            return Err(Refusal::Run);
        }
        let known = match hello.role {
            Role::Worker(index) => index.get() < served.job.workers,
            Role::Server => served.job.server,
        };
        if !known {
            return Err(Refusal::Role);
        }
        let outbox = Arc::new(Outbox::new(self.limits.outgoing, self.waker.clone()));
        // Before the outbox becomes visible to others, so that this is the peer's first message.
        let _ = outbox.push(&Answer::Welcome);
        let older = served.peers.insert(hello.role, Arc::clone(&outbox));
        if let Some(older) = &older {
            older.end();
        }
        let peer = Peer { job: hello.job, role: hello.role };
        Ok(Admission { peer, values: served.job.values, outbox, replaces: older.is_some() })
    }

    /// Removes a connection. Returns whether it was the peer's current one: it may have been
    /// replaced, or its job removed.
    pub(super) fn leave(&self, admission: &Admission) -> bool {
        let Admission { peer, outbox, .. } = admission;
        let mut jobs = self.jobs();
        let Some(served) = jobs.get_mut(&peer.job) else { return true };
        match served.peers.get(&peer.role) {
            Some(current) if Arc::ptr_eq(current, outbox) => {
                served.peers.remove(&peer.role);
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    /// Ends all connections after their pending messages are written.
    pub(super) fn finish(&self) {
        for served in self.jobs().values() {
            served.peers.values().for_each(|outbox| outbox.finish());
        }
    }

    /// Passes an event to the endpoint, waiting for room. `false` if the endpoint has ended.
    pub(super) async fn hand_over(&self, what: Incoming) -> bool {
        let taken = self.incoming.send(what).await.is_ok();
        self.waker.wake();
        taken
    }
}
