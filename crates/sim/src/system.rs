//! Switches and endpoints of a deployment in virtual time: programming, starting and cleaning up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_controller::entries::{self, JobSlot};
use tributary_controller::outcomes::{self, Count, Outcomes};
use tributary_controller::ports::PortMap;
use tributary_controller::{Catalogue, reconcile, sweep};
use tributary_model::{
    Aggregation, Deployment, JobSpec, SummedAt, SwitchId, circuits::Circuits, plan,
    plan::JobAtSwitch, worker_index,
};
use tributary_p4runtime::p4::v1::{Entity, Update};
use tributary_protocol::esa::Backend;
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{ConfigError, ParameterServer, PsConfig, Rate, Time, Worker};
use tributary_switch::{Switch, SwitchConfig};
use tributary_wire::channel::Role;
use tributary_wire::{JobId, Sequence};

use crate::channel::Pace;
use crate::error::{Error, SWEEP_TIME};
use crate::network::Network;
use crate::options::Options;
use crate::process::Process;
use crate::program::Program;

/// The network of a deployment, and the control plane of its switches.
#[derive(Debug)]
pub struct System {
    /// The network, to inspect or to disturb.
    pub network: Network,
    deployment: Deployment,
    catalogue: Catalogue,
    /// Jobs that switches serve.
    served: BTreeSet<usize>,
    pace: Pace,
    worker_rtt: Option<RttConfig>,
}

impl System {
    /// Programs the switches and installs forwarding. No job is admitted yet.
    ///
    /// # Errors
    /// [`Error`].
    pub fn start(
        deployment: Deployment,
        program: &Program,
        options: &Options,
    ) -> Result<Self, Error> {
        let scenario = deployment.scenario();
        let switch = |id: SwitchId| {
            let mut switch = Switch::new(SwitchConfig {
                device_id: id.0 as u64 + 1,
                ports: scenario.network.topology.port_numbers(id).collect(),
                queue_limit: scenario.network.switch.queue_capacity as usize,
                engine: options.engine,
                ..SwitchConfig::default()
            });
            switch.commit(program.load());
            switch
        };
        let switches = scenario.network.topology.switch_ids().map(switch).collect();
        let Options { cable, stretch, seed, ref only, until, .. } = *options;
        let until = until.map(|until| Time::ZERO + until);
        let mut network = Network::new(scenario, switches, cable, seed, only.as_ref(), until)?;
        network.stretch(stretch);
        if let Some(processing) = options.processing {
            network.process(processing);
        }
        if options.trace {
            network.record();
        }
        if let Some(recorder) = &options.capture {
            network.record_frames(recorder.clone());
        }
        let catalogue = Catalogue::new(program.p4info())?;
        let forwarding = plan::forwarding(&scenario.network.topology);
        let (pace, worker_rtt) = (options.pace, options.worker_rtt);
        let served = BTreeSet::new();
        let mut system = Self { network, deployment, catalogue, served, pace, worker_rtt };
        for (switch, forwarding) in forwarding.iter().enumerate() {
            let entities = entries::forwarding(&system.catalogue, forwarding);
            system.write(SwitchId(switch), &entries::insert(entities))?;
        }
        Ok(system)
    }

    /// The scenario, and the current assignments of its jobs.
    #[must_use]
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    fn job(&self, job: usize) -> &JobSpec {
        self.deployment.job(job)
    }

    fn write(&mut self, switch: SwitchId, updates: &[Update]) -> Result<(), Error> {
        let refused = |refusal| Error::Refused { switch: switch.0, refusal };
        let results = self.network.switch_mut(switch).write(updates).map_err(refused)?;
        results.into_iter().collect::<Result<(), _>>().map_err(refused)
    }

    // --- Switches -----------------------------------------------------------------------------

    /// Makes the switches serve a job with its current assignment.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn serve(&mut self, job: usize) -> Result<(), Error> {
        let run = self.job(job).run();
        for part in self.deployment.parts(job) {
            let entities = entries::job(&self.catalogue, &part, run, slot(job));
            self.write(part.switch, &entries::insert(entities))?;
        }
        self.served.insert(job);
        Ok(())
    }

    /// Makes the switches forward over these circuits of the cross-connect.
    ///
    /// # Errors
    /// If the cross-connect has too few ports, or a switch refuses.
    pub fn route(&mut self, circuits: &Circuits) -> Result<(), Error> {
        let before = self.entities();
        self.deployment.patch(circuits)?;
        for (switch, (before, after)) in before.iter().zip(self.entities()).enumerate() {
            self.write(SwitchId(switch), &reconcile::changes(before, &after))?;
        }
        Ok(())
    }

    /// Changes the circuits of the cross-connect. Switches route over those that stay; after the returned
    /// time, [`route`](Self::route) over all.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn patch(&mut self, next: &Circuits) -> Result<Duration, Error> {
        let kept = self.network.circuits().kept(next);
        self.route(&kept)?;
        self.network.patch(next);
        Ok(self.network.outage())
    }

    /// Places a job anew that is idle and that no switch serves, and tells its endpoints. Returns whether
    /// the switches had room for it; if not, it is at its server.
    ///
    /// # Errors
    /// If a worker is not idle, or a switch refuses.
    pub fn place(&mut self, job: usize, place: impl Into<SummedAt>) -> Result<bool, Error> {
        let room = match self.assign(job, place) {
            Err(Error::Model(tributary_model::Error::Memory { .. })) => {
                self.assign(job, Aggregation::Server)?;
                false
            }
            assigned => assigned.map(|()| true)?,
        };
        self.serve(job)?;
        let assignment = self.deployment.assignment(job);
        let JobSpec { id, ps, ref workers, .. } = *self.deployment.job(job);
        if let Some(ps) = ps {
            self.network.with_server(ps, id, |own| own.reassign(assignment)).transpose()?;
        }
        for (worker, &host) in workers.iter().enumerate() {
            let reassigned = self.network.with_worker(host, id, |own| own.reassign(assignment));
            if let Some(Err(source)) = reassigned {
                return Err(Error::Reassign { job, worker, source });
            }
        }
        Ok(room)
    }

    /// Changes the rate of a job's workers.
    pub fn pace(&mut self, job: usize, rate: Option<Rate>) {
        let now = self.network.now();
        let JobSpec { id, ref workers, .. } = *self.deployment.job(job);
        for &host in workers {
            self.network.with_worker(host, id, |own| own.set_rate(now, rate));
        }
    }

    /// All entities of each switch.
    fn entities(&self) -> Vec<Vec<Entity>> {
        let topology = &self.deployment.scenario().network.topology;
        let jobs: Vec<_> =
            self.served.iter().map(|&job| (self.deployment.placement(job), slot(job))).collect();
        let jobs = jobs.iter().map(|(placement, slot)| (placement, *slot));
        entries::network(&self.catalogue, topology, &PortMap::default(), jobs)
    }

    /// Assigns another service and segment to a job that no switch serves at the moment.
    ///
    /// # Errors
    /// If the switches have no room for it.
    pub fn assign(&mut self, job: usize, place: impl Into<SummedAt>) -> Result<(), Error> {
        self.deployment.assign(job, place)?;
        Ok(())
    }

    /// Removes a job from the switches as the controller does: first the entries that admit its
    /// packets, then, after a sweep of its aggregators, the entries that name these. Returns how
    /// many aggregators each switch freed.
    ///
    /// # Errors
    /// If a switch refuses, or a sweep does not come back.
    pub fn forget(&mut self, job: usize) -> Result<Vec<(SwitchId, u32)>, Error> {
        self.served.remove(&job);
        let run = self.job(job).run();
        let mut freed = Vec::new();
        for part in self.deployment.parts(job) {
            let entities = entries::memberships(&self.catalogue, &part, run, slot(job));
            self.write(part.switch, &entries::delete(entities))?;
            let service = entries::service(&self.catalogue, &part, run.job);
            if service.is_none() || part.segment().is_some() {
                freed.push((part.switch, self.sweep(part.switch, job)?));
            }
            self.write(part.switch, &entries::delete(service.into_iter().collect()))?;
        }
        self.deployment.release(job);
        Ok(freed)
    }

    /// Outcomes of a job's packets at each switch.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn outcomes(&self, job: usize) -> Result<Vec<Outcomes>, Error> {
        self.counted(Some(slot(job)))
    }

    /// Outcomes of packets of no job at each switch.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn unattributed(&self) -> Result<Vec<Outcomes>, Error> {
        self.counted(None)
    }

    fn counted(&self, slot: Option<JobSlot>) -> Result<Vec<Outcomes>, Error> {
        let request = Outcomes::request(&self.catalogue, slot);
        let read = |switch| Ok(Outcomes::of(&self.catalogue, slot, &self.read(switch, &request)?));
        self.deployment.scenario().network.topology.switch_ids().map(read).collect()
    }

    /// Evicted partial sums of a job at each of its switches (ESA).
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn evictions(&self, job: usize) -> Result<BTreeMap<SwitchId, Count>, Error> {
        let request = outcomes::evictions_request(&self.catalogue);
        let epoch = self.job(job).epoch;
        let count = |part: JobAtSwitch| {
            let answer = self.read(part.switch, &request)?;
            Ok((part.switch, outcomes::evictions(&self.catalogue, epoch, &answer)))
        };
        match request.is_empty() {
            true => Ok(BTreeMap::new()),
            false => self.deployment.parts(job).into_iter().map(count).collect(),
        }
    }

    fn read(&self, switch: SwitchId, request: &[Entity]) -> Result<Vec<Entity>, Error> {
        let answer = self.network.switch(switch).read(request);
        answer.map_err(|refusal| Error::Refused { switch: switch.0, refusal })
    }

    /// Sweeps a switch's pool, or a job's segment of it. Returns how many aggregators were freed.
    fn sweep(&mut self, switch: SwitchId, job: usize) -> Result<u32, Error> {
        let nonce = Sequence(0);
        let run = self.job(job).run();
        let assignment = self.deployment.assignment(job);
        let frame = sweep::frame(self.catalogue.protocol(), run, assignment, nonce);
        let now_us = self.network.now().as_nanos() / 1000;
        self.network.switch_mut(switch).packet_out(now_us, &frame);
        self.network.poke_switch(switch);
        let deadline = self.network.now() + SWEEP_TIME;
        while self.network.now() < deadline {
            for (from, frame) in self.network.take_packets_in() {
                if let Some(freed) = sweep::freed(&frame, run, nonce)
                    && from == switch
                {
                    return Ok(freed);
                }
            }
            let soon = self.network.now() + Duration::from_millis(1);
            while self.network.step(soon) {}
        }
        Err(Error::SweepLost { switch: switch.0 })
    }

    // --- Endpoints ----------------------------------------------------------------------------

    /// Starts all endpoints of a job, and connects those of ESA. `plain` creates a parameter server
    /// of the other protocols: the job's first, or a successor.
    ///
    /// # Errors
    /// If a configuration contradicts itself, or the agent cannot reach a switch.
    pub fn start_endpoints(
        &mut self,
        job: usize,
        plain: fn(PsConfig) -> Result<ParameterServer, ConfigError>,
    ) -> Result<(), Error> {
        self.start_server(job, plain)?;
        self.start_agent(job)?;
        for worker in 0..self.job(job).workers.len() {
            let index = worker_index(worker);
            let mut config = self.deployment.worker(job, index);
            if let Some(rtt) = self.worker_rtt {
                config.timing.rtt = rtt;
            }
            let JobSpec { id, ref workers, .. } = *self.deployment.job(job);
            self.network.start(workers[worker], Process::Worker(id, Worker::new(config)?));
        }
        self.connect(job)
    }

    /// Starts a new parameter server, with the reminder agent unless that has a host of its own.
    pub(crate) fn start_server(
        &mut self,
        job: usize,
        plain: fn(PsConfig) -> Result<ParameterServer, ConfigError>,
    ) -> Result<(), Error> {
        let JobSpec { id, ps, agent, protocol, .. } = *self.job(job);
        let (Some(ps), Some(config)) = (ps, self.deployment.server(job)) else { return Ok(()) };
        let process = if protocol.has_reminder_agent() {
            let mut backend = Backend::default();
            backend.add_server(config)?;
            if agent == Some(ps) {
                let agent = self.deployment.agent(job)?;
                agent.map_or(Ok(()), |agent| backend.add_agent(agent))?;
            }
            Process::Esa(id, backend)
        } else {
            Process::Server(id, plain(config)?)
        };
        // Replaces a server that is still running.
        self.network.kill(ps, id);
        self.network.start(ps, process);
        Ok(())
    }

    /// Starts a new reminder agent, if it has a host of its own.
    pub(crate) fn start_agent(&mut self, job: usize) -> Result<(), Error> {
        let JobSpec { id, ps, agent, .. } = *self.job(job);
        let Some(host) = agent.filter(|&agent| ps != Some(agent)) else { return Ok(()) };
        let mut backend = Backend::default();
        let config = self.deployment.agent(job)?;
        config.map_or(Ok(()), |config| backend.add_agent(config))?;
        self.network.kill(host, id);
        self.network.start(host, Process::Esa(id, backend));
        Ok(())
    }

    /// The reliable channels of a job's endpoints.
    fn connect(&mut self, job: usize) -> Result<(), Error> {
        let JobSpec { id, ps, agent, ref workers, .. } = *self.deployment.job(job);
        let Some(agent) = agent else { return Ok(()) };
        for (worker, &host) in workers.iter().enumerate() {
            let role = Role::Worker(worker_index(worker));
            self.network.connect(id, role, host, agent, self.pace)?;
        }
        if let Some(ps) = ps.filter(|&ps| ps != agent) {
            self.network.connect(id, Role::Server, ps, agent, self.pace)?;
        }
        Ok(())
    }

    /// The running servers and agents of an ESA job.
    pub fn backends(&self, job: JobId) -> impl Iterator<Item = &Backend> {
        let hosts = self.deployment.scenario().network.topology.host_ids();
        hosts.flat_map(|host| self.network.processes(host)).filter_map(move |process| match process
        {
            Process::Esa(its, backend) if *its == job => Some(backend),
            _ => None,
        })
    }
}

pub(crate) fn slot(job: usize) -> JobSlot {
    u8::try_from(job + 1).ok().and_then(JobSlot::new).expect("at most 255 jobs")
}
