//! What is done to a run while it is under way: processes die and come back, connections break, jobs
//! are ended.

use tributary_controller::entries;
use tributary_jobfile::{HostId, Job, Protocol};
use tributary_protocol::esa::{self, AgentJob};
use tributary_protocol::{Assignment, ParameterServer, Timing};
use tributary_wire::channel::Role;

use super::{Error, Run, worker_index};
use crate::process::Process;

/// Something that is done at a given time. Jobs and workers are given by their index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Act {
    /// The process of the job's parameter server dies, and with it the reminder agent unless that has
    /// a host of its own. All that it knew is gone.
    StopServer(usize),
    /// A new process for the job's parameter server starts.
    StartServer(usize),
    /// The reminder agent dies. It has a host of its own, or nothing happens.
    StopAgent(usize),
    /// A new reminder agent starts.
    StartAgent(usize),
    /// The connection between a worker of a job and the reminder agent breaks (ESA).
    Cut(usize, usize),
    /// The job is ended: its processes are killed, its entries deleted, its aggregators swept.
    End(usize),
}

impl Run<'_> {
    pub(super) fn act(&mut self, act: Act) -> Result<(), Error> {
        let (Act::StopServer(index)
        | Act::StartServer(index)
        | Act::StopAgent(index)
        | Act::StartAgent(index)
        | Act::Cut(index, _)
        | Act::End(index)) = act;
        if self.ended[index].is_some() {
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
                    self.network.note(ps, "the parameter server starts");
                }
                self.start_server(job)?;
            }
            Act::StartAgent(_) => self.start_agent(job)?,
            Act::Cut(_, worker) => self.network.cut(job.id, Role::Worker(worker_index(worker))),
            Act::End(_) => self.end(index)?,
        }
        Ok(())
    }

    fn stop(&mut self, host: HostId, job: &Job, text: &str) {
        self.network.note(host, text);
        self.network.kill(host, job.id);
    }

    /// A fresh parameter server, with the reminder agent in it unless that has a host of its own.
    pub(super) fn start_server(&mut self, job: &Job) -> Result<(), Error> {
        let Some(ps) = job.ps else { return Ok(()) };
        let config = self.scenario.ps_config(job, Assignment::NONE);
        let timing = config.timing;
        let process = if job.protocol != Protocol::Esa {
            Process::Server(job.id, ParameterServer::new(config)?)
        } else if job.agent == job.ps {
            let mut both = esa::Together::new(timing)?;
            both.add_job(config, self.agent_job(job)?)?;
            Process::Together(job.id, both)
        } else {
            Process::EsaServer(job.id, esa::Server::new(config)?)
        };
        // Should one be there still, the new one takes its place.
        self.network.kill(ps, job.id);
        self.network.start(ps, process);
        Ok(())
    }

    /// A fresh reminder agent, if it has a host of its own.
    pub(super) fn start_agent(&mut self, job: &Job) -> Result<(), Error> {
        let Some(host) = job.agent.filter(|&agent| job.ps != Some(agent)) else { return Ok(()) };
        let timing: Timing = self.scenario.ps_config(job, Assignment::NONE).timing;
        let mut agent = esa::Agent::new(timing)?;
        agent.add_job(self.agent_job(job)?)?;
        self.network.kill(host, job.id);
        self.network.start(host, Process::Agent(job.id, agent));
        Ok(())
    }

    fn agent_job(&self, job: &Job) -> Result<AgentJob, Error> {
        let agent = job.agent.expect("a job of ESA has an agent");
        Ok(AgentJob {
            job: self.scenario.job_config(job, Assignment::NONE),
            host: self.scenario.topology.host(agent).address,
            switches: self.targets(job)?,
        })
    }

    /// The channels of a job's endpoints.
    pub(super) fn connect(&mut self, job: &Job) -> Result<(), Error> {
        let Some(agent) = job.agent else { return Ok(()) };
        for (worker, &host) in job.workers.iter().enumerate() {
            let role = Role::Worker(worker_index(worker));
            self.network.connect(job.id, role, host, agent, self.pace)?;
        }
        if let Some(ps) = job.ps.filter(|&ps| ps != agent) {
            self.network.connect(job.id, Role::Server, ps, agent, self.pace)?;
        }
        Ok(())
    }

    /// Ends a job as the controller does: entries first, and then the sweep.
    pub(super) fn end(&mut self, index: usize) -> Result<(), Error> {
        let job = &self.scenario.jobs[index];
        for host in self.scenario.topology.host_ids() {
            self.network.kill(host, job.id);
        }
        self.due.retain(|(_, its, _)| *its != index);
        self.farewells.retain(|(its, _), _| *its != index);
        self.hear();
        self.outstanding -= std::mem::take(&mut self.missing[index]);
        let mut freed = 0;
        for (switch, entities) in self.parts(index) {
            self.write(switch, &entries::delete(entities))?;
            freed += u64::from(self.sweep(switch, job.id)?);
        }
        self.ended[index] = Some(freed);
        self.find_leaks();
        Ok(())
    }
}
