//! Interventions during a run: processes die and come back, connections break, links go down, jobs
//! are ended or moved, workers send invalid packets.

use std::time::Duration;

use tributary_model::{HostId, JobSpec, LinkId, SummedAt, circuits::Circuits, worker_index};
use tributary_protocol::{Assignment, ParameterServer, Rate};
use tributary_wire::agg::{Kind, Repr};
use tributary_wire::channel::Role;
use tributary_wire::{
    AggregatorIndex, Audience, Ecn, Envelope, Flags, Host, Round, emit_frame, values,
};

use super::{Error, Run};

/// An intervention at a given time. Jobs and workers are given by index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Act {
    /// The process of the job's parameter server dies, with the reminder agent unless that has a
    /// host of its own. Its state is lost.
    StopServer(usize),
    /// A new process for the job's parameter server starts.
    StartServer(usize),
    /// The reminder agent dies. Has no effect unless it has a host of its own.
    StopAgent(usize),
    /// A new reminder agent starts.
    StartAgent(usize),
    /// The connection between a worker of a job and the reminder agent breaks (ESA).
    Cut(usize, usize),
    /// The job is ended: its processes are killed, its entries deleted, its aggregators swept.
    End(usize),
    /// The job is ended, and restarts from its first tensor (P4INC, SwitchML: packets of the
    /// previous run name another service, unless both runs are at the parameter server).
    Again(usize),
    /// Before its next iteration the job moves (P4INC).
    Move(usize, SummedAt),
    /// A worker sends a gradient of a fragment beyond the job's segment (P4INC, SwitchML).
    Stray {
        /// Index of the job.
        job: usize,
        /// Index of the worker.
        worker: usize,
        /// Distance from the segment's end; zero is the first aggregator after it.
        behind: u32,
        /// The fragment that the packet names.
        fragment: u32,
    },
    /// The workers of the job send at another rate, in bits of values per second; `None` for no limit.
    Pace(usize, Option<Rate>),
    /// The cross-connect gets the circuits with this index of [`Run::patches`]. Switches route over
    /// those that stay until the others carry light.
    Patch(usize),
    /// The switches route over the circuits that the cross-connect has.
    Route,
    /// A link goes down.
    Down(LinkId),
    /// A link comes up.
    Up(LinkId),
}

impl Act {
    /// The job that the act affects, if any.
    #[must_use]
    pub fn job(self) -> Option<usize> {
        match self {
            Self::StopServer(job)
            | Self::StartServer(job)
            | Self::StopAgent(job)
            | Self::StartAgent(job)
            | Self::Cut(job, _)
            | Self::End(job)
            | Self::Again(job)
            | Self::Move(job, _)
            | Self::Pace(job, _)
            | Self::Stray { job, .. } => Some(job),
            Self::Patch(_) | Self::Route | Self::Down(_) | Self::Up(_) => None,
        }
    }

    /// The same act for another job, if it affects one.
    #[must_use]
    pub fn of_job(self, other: impl FnOnce(usize) -> usize) -> Self {
        match self {
            Self::StopServer(job) => Self::StopServer(other(job)),
            Self::StartServer(job) => Self::StartServer(other(job)),
            Self::StopAgent(job) => Self::StopAgent(other(job)),
            Self::StartAgent(job) => Self::StartAgent(other(job)),
            Self::Cut(job, worker) => Self::Cut(other(job), worker),
            Self::End(job) => Self::End(other(job)),
            Self::Again(job) => Self::Again(other(job)),
            Self::Move(job, to) => Self::Move(other(job), to),
            Self::Stray { job, worker, behind, fragment } => {
                Self::Stray { job: other(job), worker, behind, fragment }
            }
            Self::Pace(job, rate) => Self::Pace(other(job), rate),
            Self::Patch(_) | Self::Route | Self::Down(_) | Self::Up(_) => self,
        }
    }
}

impl Run<'_> {
    pub(super) fn act(&mut self, act: Act) -> Result<(), Error> {
        let index = match act {
            Act::Down(link) | Act::Up(link) => {
                self.system.network.set_down(link, matches!(act, Act::Down(_)));
                return Ok(());
            }
            Act::Patch(to) => {
                let next = self.patches[to].clone();
                return self.patch(&next).map(drop);
            }
            Act::Route => {
                let circuits = self.system.network.circuits().clone();
                return self.system.route(&circuits);
            }
            _ => act.job().expect("all others are about one"),
        };
        if self.ended.contains(&index) {
            return Ok(());
        }
        let job = &self.scenario.jobs[index];
        match act {
            Act::StopServer(_) => {
                job.ps.into_iter().for_each(|ps| self.stop(ps, job, "the parameter server dies"));
            }
            Act::StopAgent(_) => {
                let apart = job.agent.filter(|&agent| job.ps != Some(agent));
                apart.into_iter().for_each(|at| self.stop(at, job, "the reminder agent dies"));
            }
            Act::StartServer(_) => {
                if let Some(ps) = job.ps {
                    self.system.network.note(ps, "the parameter server starts");
                }
                self.system.start_server(index, ParameterServer::successor)?;
            }
            Act::StartAgent(_) => self.system.start_agent(index)?,
            Act::Cut(_, worker) => {
                self.system.network.cut(job.id, Role::Worker(worker_index(worker)))
            }
            Act::End(_) => self.end(index)?,
            Act::Again(_) => self.again(index)?,
            Act::Move(_, to) => self.plan_move(index, to),
            Act::Stray { worker, behind, fragment, .. } => {
                self.stray(index, worker, behind, fragment);
            }
            Act::Pace(_, rate) => self.system.pace(index, rate),
            Act::Patch(_) | Act::Route | Act::Down(_) | Act::Up(_) => unreachable!("about no job"),
        }
        Ok(())
    }

    /// Changes the circuits of the cross-connect. Switches route over those that stay, and over all when
    /// they carry light, which is when the returned time has passed.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn patch(&mut self, next: &Circuits) -> Result<Duration, Error> {
        let outage = self.system.patch(next)?;
        self.acts.insert((self.system.network.now() + outage, Act::Route));
        Ok(outage)
    }

    fn stop(&mut self, host: HostId, job: &JobSpec, text: &str) {
        self.system.network.note(host, text);
        self.system.network.kill(host, job.id);
    }

    /// Ends a job: processes, entries, aggregators.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn end(&mut self, index: usize) -> Result<(), Error> {
        self.clear(index)?;
        self.outstanding -= std::mem::take(&mut self.missing[index]);
        Ok(())
    }

    fn clear(&mut self, index: usize) -> Result<(), Error> {
        let job = &self.scenario.jobs[index];
        for host in self.scenario.network.topology.host_ids() {
            self.system.network.kill(host, job.id);
        }
        // Events before the end still count.
        self.hear();
        self.due.retain(|(_, its, _)| *its != index);
        self.held.retain(|(its, _)| *its != index);
        self.farewells.retain(|(its, _), _| *its != index);
        self.moves.remove(&index);
        self.freed[index] =
            self.system.forget(index)?.iter().map(|&(_, freed)| u64::from(freed)).sum();
        self.ended.insert(index);
        self.find_leaks();
        Ok(())
    }

    /// Ends a job and restarts it.
    fn again(&mut self, index: usize) -> Result<(), Error> {
        if !self.system.deployment().has_segments() {
            return Ok(());
        }
        self.clear(index)?;
        self.ended.remove(&index);
        let sums: usize = self.inputs[index].iter().map(Vec::len).sum();
        self.outstanding += sums - self.missing[index];
        self.missing[index] = sums;
        for worker in 0..self.inputs[index].len() {
            self.sums[index][worker].clear();
            self.courses[index][worker].clear();
            self.present.insert((index, worker));
        }
        self.system.assign(index, self.scenario.jobs[index].aggregation)?;
        self.admit(index)
    }

    /// A gradient for an aggregator outside the job's segment.
    fn stray(&mut self, index: usize, worker: usize, behind: u32, fragment: u32) {
        let scenario = self.scenario;
        let (job, pool) = (&scenario.jobs[index], scenario.network.switch.pool);
        let assignment = self.assignment(index);
        let Some(end) = assignment.segment.end() else { return };
        let place = AggregatorIndex((end.0 + behind) % pool);
        if assignment == Assignment::NONE || assignment.segment.contains(place) {
            return;
        }
        let host = job.workers[worker];
        let racks = scenario.network.job_config(job, assignment).racks;
        let (rack, bitmap) = racks.name(worker_index(worker));
        let repr = Repr {
            protocol: job.protocol,
            kind: Kind::Gradient,
            flags: Flags::NONE,
            priority: assignment.service.get(),
            job: job.id,
            epoch: job.epoch,
            values: scenario.network.switch.values_per_packet,
            sequence: Round::first(fragment).sequence(),
            bitmap,
            rack,
            audience: Audience::ALL,
            index: place,
        };
        let server =
            job.ps.map_or(Host::service(job.id), |ps| scenario.network.topology.host(ps).address);
        let source = scenario.network.topology.host(host).address;
        let envelope = Envelope { source, destination: server, ecn: Ecn::Ect0 };
        let mut frame = Vec::new();
        let payload = emit_frame(&mut frame, &envelope, &repr);
        values::write_i32(payload, &vec![0x0bad_cafe; usize::from(repr.values)]);
        let (switch, port) = scenario.network.topology.attachment(host);
        self.system.network.inject(switch, port, &frame);
    }
}
