//! Start and end of attempts and agents.

use std::collections::BTreeSet;

use tributary_base::DECISIONS;

use super::{
    Action, Admission, Agent, Command, Connection, Dismissal, Manager, ProcessState, Stranger,
};
use crate::job::{Cause, Exit, Outcome, Phase, Record, Run, Task, TaskId};
use crate::job_file;
use crate::site::Site;

/// The admission of an attempt to the switches, if it needs one.
pub(super) fn admission(site: &Site, record: &Record, run: &Run) -> Option<Admission> {
    Some(Admission {
        wire: run.wire?,
        name: record.request.name.clone(),
        tenant: record.request.tenant.clone(),
        workers: run.tasks.iter().map(|task| task.server.clone()).collect(),
        ps: run.ps.clone(),
        at_server: run.adding.as_ref().is_some_and(Vec::is_empty),
        epoch: run.epoch,
        max_rate: record.request.max_rate,
        settings: job_file::settings(record, run, site.fits(&record.request)),
        key: run.key,
    })
}

/// The switches have lost a job.
const NOT_SERVED: &str = "the switches no longer serve it";

impl Manager {
    /// Repeats actions that the preceding manager may not have carried out.
    pub(super) fn resume(&mut self) {
        let jobs: Vec<u32> = self.durable.jobs.keys().copied().collect();
        for job in jobs {
            let record = &self.durable.jobs[&job];
            match &record.phase {
                Phase::Running(run) => {
                    let admission = admission(&self.site, record, run);
                    self.outbox.extend(admission.map(Action::Admit));
                }
                Phase::Ending(..) => self.close(job),
                _ => {}
            }
        }
    }

    /// Tells the agents to start the processes that are not known to have ended. The attempt must
    /// be served by switches, or need no switches.
    pub(super) fn start_tasks(&mut self, job: u32, wanted: impl Fn(&Task) -> bool) {
        let Some(record) = self.durable.jobs.get(&job).cloned() else { return };
        let Phase::Running(run) = &record.phase else { return };
        if run.wire.is_some_and(|wire| !self.network.admitted.contains(&wire)) {
            return;
        }
        for task in run.live().filter(|task| wanted(task)) {
            let start = Command::Start(record.task(task.worker), Box::new(record.clone()));
            self.send(&task.server, task.incarnation, start);
        }
    }

    /// The job whose attempt has this number in packets.
    fn on_wire(&self, wire: u16) -> Option<&Record> {
        let has = |record: &&Record| record.phase.run().and_then(|run| run.wire) == Some(wire);
        self.durable.jobs.values().find(has)
    }

    pub(super) fn on_admitted(&mut self, wire: u16, epoch: u32, ps: Option<String>) {
        let Some(mut record) = self.on_wire(wire).cloned() else { return };
        let job = record.id;
        self.network.delayed.remove(&wire);
        if self.network.admitted.insert(wire) {
            let (name, tenant) = (&*record.request.name, record.request.tenant.as_deref());
            tracing::info!(target: DECISIONS, job, name, tenant, packet_id = wire, run = epoch, "the switches serve it");
        }
        // After a restart of the manager, the switches' controller names all jobs again: that is no news.
        let mut is_news = record.history.last().is_some_and(|last| last.what == NOT_SERVED);
        if let Phase::Running(run) = &mut record.phase
            && run.epoch.is_none()
        {
            run.epoch = Some(epoch);
            // Workers send to the one that the controller has chosen.
            run.ps = run.ps.take().or(ps);
            is_news = true;
        }
        if is_news {
            record.note(self.now_ms, &format!("the switches serve it as number {wire} in packets"));
            self.put(record);
        }
        self.start_tasks(job, |_| true);
    }

    pub(super) fn on_refused(&mut self, wire: u16, reason: String, passing: bool) {
        self.network.forget(wire);
        let Some(job) = self.on_wire(wire).map(|record| record.id) else { return };
        let reason = format!("the switches do not serve it: {reason}");
        let cause = if passing { Cause::Lost(reason) } else { Cause::Failed(reason) };
        self.end_attempt(job, cause);
    }

    pub(super) fn on_released(&mut self, wire: u16) {
        self.network.forget(wire);
        self.served.remove(&wire);
        if let Some(stranger) = self.strangers.get_mut(&wire) {
            *stranger = Stranger::Released;
        }
        let Some(record) = self.on_wire(wire) else { return };
        let (job, ended) =
            (record.id, record.phase.run().is_some_and(|run| run.live().count() == 0));
        if ended {
            self.finish(job);
        }
    }

    /// The switches may have lost jobs together with their controller, and may serve jobs that are
    /// not recorded.
    pub(super) fn on_serving(&mut self, wires: BTreeSet<u16>) {
        self.network.heard = true;
        let lost: Vec<u16> = self.network.admitted.difference(&wires).copied().collect();
        for wire in lost {
            self.network.admitted.remove(&wire);
            if let Some(mut record) = self.on_wire(wire).cloned() {
                let (job, name, tenant) =
                    (record.id, &*record.request.name, record.request.tenant.as_deref());
                tracing::warn!(target: DECISIONS, job, name, tenant, "{NOT_SERVED}");
                record.note(self.now_ms, NOT_SERVED);
                self.put(record);
            }
            let run = self.on_wire(wire).and_then(|record| match &record.phase {
                Phase::Running(run) => admission(&self.site, record, run),
                _ => None,
            });
            self.outbox.extend(run.map(Action::Admit));
        }
        for &wire in &wires {
            if self.on_wire(wire).is_none() {
                self.on_stranger(wire);
            }
        }
        self.served = wires;
    }

    fn on_stranger(&mut self, wire: u16) {
        match self.strangers.get(&wire) {
            None => {
                self.strangers.insert(wire, Stranger::Asked);
                self.outbox.push(Action::Release(wire));
            }
            Some(Stranger::Released) => {
                self.strangers.insert(wire, Stranger::LeftAlone);
                tracing::warn!(
                    "job {wire} of the controller is none of this manager's, was released, and \
                     is admitted again: it is left alone; give each manager a controller of its own"
                );
            }
            Some(Stranger::Asked | Stranger::LeftAlone) => {}
        }
    }

    pub(super) fn registered(
        &mut self,
        connection: Connection,
        server: &str,
        incarnation: u64,
        processes: Vec<ProcessState>,
    ) {
        match self.agents.get(server) {
            None => {
                let why = Dismissal::NoSuchServer(server.to_owned());
                return self.outbox.push(Action::Dismiss(connection, why));
            }
            Some(&Agent::Here { incarnation: other, .. }) if other != incarnation => {
                let why = Dismissal::Taken(server.to_owned());
                return self.outbox.push(Action::Dismiss(connection, why));
            }
            Some(&Agent::Here { connection: old, .. }) => {
                self.outbox.push(Action::Dismiss(old, Dismissal::Newer));
            }
            Some(Agent::Away { .. } | Agent::Gone) => {}
        }
        self.agents.insert(server.to_owned(), Agent::Here { connection, incarnation });
        self.outbox.push(Action::Send(connection, Command::Welcome));
        let told: BTreeSet<TaskId> = processes.iter().map(|process| process.task).collect();
        for job in self.jobs_on(server) {
            self.compare(job, server, incarnation, &told);
        }
        for process in processes {
            self.reported(connection, process);
        }
    }

    /// Handles processes that are recorded but not reported by a registered agent. A process of an
    /// earlier life of the agent has ended. A process of this life was never started, or it would
    /// have been reported.
    fn compare(&mut self, job: u32, server: &str, incarnation: u64, told: &BTreeSet<TaskId>) {
        let record = &self.durable.jobs[&job];
        let ending = matches!(record.phase, Phase::Ending(..));
        let attempt = record.attempts;
        let is_told = |task: &Task| told.contains(&TaskId { job, attempt, worker: task.worker });
        let live = record.phase.run().into_iter().flat_map(Run::live);
        let here: Vec<Task> = live.filter(|task| task.server == server).cloned().collect();
        let mut lost = None;
        for task in &here {
            if task.incarnation != incarnation {
                let why = format!("the agent of {server} was started again");
                self.note_exit(job, task.worker, Exit::lost(&why));
                lost = Some(why);
            } else if ending && !is_told(task) {
                self.note_exit(job, task.worker, Exit::lost("it was never started"));
            }
        }
        match lost {
            Some(why) => self.end_attempt(job, Cause::Lost(why)),
            None if ending => self.close(job),
            None => self.start_tasks(job, |task| task.server == server && !is_told(task)),
        }
    }

    /// The jobs that may have processes on a server, or use its parameter server.
    fn jobs_on(&self, server: &str) -> Vec<u32> {
        let live = |record: &&Record| {
            let run = record.phase.run();
            run.is_some_and(|run| {
                run.live().any(|task| task.server == server) || run.ps.as_deref() == Some(server)
            })
        };
        self.durable.jobs.values().filter(live).map(|record| record.id).collect()
    }

    pub(super) fn reported(&mut self, connection: Connection, process: ProcessState) {
        let ProcessState { task: id, exit } = process;
        let is_here =
            |agent: &Agent| matches!(agent, Agent::Here { connection: c, .. } if *c == connection);
        let Some((server, &Agent::Here { incarnation, .. })) =
            self.agents.iter().find(|(_, agent)| is_here(agent))
        else {
            // The report comes from a closed connection and will be repeated on another.
            return;
        };
        let server = server.clone();
        let record = self.durable.jobs.get(&id.job).filter(|record| record.attempts == id.attempt);
        let task = record.and_then(|record| record.phase.run()).and_then(|run| {
            let same = |task: &&Task| task.worker == id.worker && task.server == server;
            run.tasks.iter().find(same).filter(|task| task.incarnation == incarnation)
        });
        let known = task.map(|task| task.exit.is_some());
        let running = record.is_some_and(|record| matches!(record.phase, Phase::Running(_)));
        match (known, exit) {
            (Some(false), Some(exit)) => {
                self.note_exit(id.job, id.worker, exit);
                self.send(&server, incarnation, Command::Acknowledge(id));
                self.after_exit(id.job);
            }
            (_, Some(_)) => self.send(&server, incarnation, Command::Acknowledge(id)),
            (Some(false), None) if running => {}
            (_, None) => self.send(&server, incarnation, Command::Stop(id)),
        }
    }

    /// Records how a process ended.
    fn note_exit(&mut self, job: u32, worker: u8, exit: Exit) {
        let mut record = self.durable.jobs[&job].clone();
        if let Phase::Running(run) | Phase::Ending(run, _) = &mut record.phase
            && let Some(task) = run.tasks.iter_mut().find(|task| task.worker == worker)
        {
            task.exit = Some(exit);
        }
        self.put(record);
    }

    /// Updates the attempt according to the recorded exits.
    fn after_exit(&mut self, job: u32) {
        let run = match &self.durable.jobs[&job].phase {
            Phase::Running(run) => run,
            Phase::Ending(..) => return self.close(job),
            _ => return,
        };
        let mut ended = run.tasks.iter().filter_map(|task| Some((task, task.exit.as_ref()?)));
        let failed = ended.find(|(_, exit)| exit.outcome != Outcome::Success);
        // A process that waited in vain for one on an absent server failed through no fault of the job.
        // The controller may have chosen a parameter server that is none of the site's servers.
        let ps = run.ps.as_deref().filter(|ps| self.agents.contains_key(*ps));
        let workers = run.live().map(|task| task.server.as_str());
        let needed: Vec<&str> = workers.chain(ps).collect();
        let away = needed.iter().find(|server| !self.is_here(server));
        let cause = match (failed, away) {
            (Some((task, exit)), away) => {
                let why = format!("worker {} on {}: {}", task.worker, task.server, exit.detail);
                match (exit.outcome, away) {
                    (Outcome::Lost, _) => Cause::Lost(why),
                    (_, Some(other)) => Cause::Lost(format!("{other} is away; {why}")),
                    _ => Cause::Failed(why),
                }
            }
            (None, _) if run.live().next().is_none() => Cause::Finished,
            (None, _) => return,
        };
        self.end_attempt(job, cause);
    }

    /// Ends the remaining processes of an attempt. The first cause counts, except that a
    /// cancellation overrides it.
    pub(super) fn end_attempt(&mut self, job: u32, cause: Cause) {
        let mut record = self.durable.jobs[&job].clone();
        match &record.phase {
            Phase::Running(run) => {
                let run = run.clone();
                for task in run.live() {
                    self.send(
                        &task.server,
                        task.incarnation,
                        Command::Stop(record.task(task.worker)),
                    );
                }
                record.phase = Phase::Ending(run, cause);
                self.put(record);
            }
            Phase::Ending(run, before) if cause == Cause::Cancelled && *before != cause => {
                record.phase = Phase::Ending(run.clone(), cause);
                self.put(record);
            }
            _ => {}
        }
        self.close(job);
    }

    /// When all processes of an attempt have ended, releases it from the switches, and then
    /// completes it.
    fn close(&mut self, job: u32) {
        let Phase::Ending(run, _) = &self.durable.jobs[&job].phase else { return };
        if run.live().next().is_some() {
            return;
        }
        match run.wire {
            Some(wire) => self.outbox.push(Action::Release(wire)),
            None => self.finish(job),
        }
    }

    /// Completes an attempt, and frees its GPUs.
    fn finish(&mut self, job: u32) {
        let mut record = self.durable.jobs[&job].clone();
        let Phase::Ending(run, cause) = record.phase else { return };
        record.phase = match cause {
            Cause::Finished => Phase::Finished(run),
            Cause::Cancelled => Phase::Cancelled,
            Cause::Lost(why) => {
                record.setback = Some(why);
                Phase::Waiting
            }
            Cause::Failed(why) => {
                record.failures += 1;
                if record.failures > record.request.retries {
                    Phase::Failed(why)
                } else {
                    record.setback = Some(why);
                    Phase::Waiting
                }
            }
        };
        let over = record.phase.is_over();
        self.put(record);
        if over {
            self.forget_old();
        }
    }

    pub(super) fn disconnected(&mut self, now_ms: u64, connection: Connection) {
        for agent in self.agents.values_mut() {
            if matches!(agent, Agent::Here { connection: c, .. } if *c == connection) {
                *agent = Agent::Away { since_ms: now_ms };
            }
        }
    }

    /// An agent was absent for so long that it has ended all its processes.
    pub(super) fn lease_over(&mut self, server: &str) {
        self.agents.insert(server.to_owned(), Agent::Gone);
        for job in self.jobs_on(server) {
            let why = format!("the agent of {server} is gone");
            let live = self.durable.jobs[&job].phase.run().into_iter().flat_map(Run::live);
            let here: Vec<u8> =
                live.filter(|task| task.server == server).map(|task| task.worker).collect();
            for worker in here {
                self.note_exit(job, worker, Exit::lost(&why));
            }
            self.end_attempt(job, Cause::Lost(why));
        }
    }
}
