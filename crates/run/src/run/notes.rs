//! What endpoints report while they work, until all workers are done.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use anyhow::{Result, anyhow, bail};
use tributary_model::{JobSpec, Workload};
use tributary_ps::report as servers;
use tributary_wire::name_workers;
use tributary_worker::rounds::{Event, Loss};

use crate::diagnosis::Diagnosis;
use crate::fabric::{Fabric, Note};
use crate::live::model::Weight;
use crate::watch::Sampler;

use super::results::Gathered;
use super::stopped::Watch;
use super::{Observer, Run};

/// Follows the endpoints of a run.
pub(super) struct Notes<'a, F, O> {
    run: &'a Run<'a>,
    fabric: &'a mut F,
    observer: &'a mut O,
    sampler: &'a mut Option<Sampler>,
    diagnosis: &'a mut Diagnosis,
    gathered: &'a mut Gathered,
    /// Number of workers that have neither reported nor been lost.
    due: usize,
    /// Workers that are still warming up, by the index of their job and their own.
    cold: BTreeSet<(usize, usize)>,
}

impl<'a, F: Fabric, O: Observer> Notes<'a, F, O> {
    pub(super) fn new(
        run: &'a Run<'a>,
        fabric: &'a mut F,
        observer: &'a mut O,
        sampler: &'a mut Option<Sampler>,
        diagnosis: &'a mut Diagnosis,
        gathered: &'a mut Gathered,
    ) -> Self {
        let scenario = run.scenario();
        let due = scenario.whole_jobs().map(|(_, job)| job.workers.len()).sum();
        let warming = scenario.whole_jobs().filter(|(_, job)| warm_up(job) > 0);
        let cold = warming
            .flat_map(|(lane, job)| (0..job.workers.len()).map(move |worker| (lane, worker)))
            .collect();
        Self { run, fabric, observer, sampler, diagnosis, gathered, due, cold }
    }

    /// Receives notes until all workers are done.
    pub(super) async fn follow(mut self, watch: &mut Watch) -> Result<()> {
        let scenario = self.run.scenario();
        while self.due > 0 {
            if self.run.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if let Some(found) = watch.look(self.fabric)
                && found.since.elapsed() >= scenario.network.worker_timeout
            {
                return Err(found.error());
            }
            if self.fabric.elapsed() >= scenario.timeout {
                bail!(
                    "the run took longer than its timeout of {:?}; raise `timeout` in the job file \
                     if it needs longer",
                    scenario.timeout
                );
            }
            self.look().await;
            match self.fabric.next_note().await {
                None => {}
                Some(Note::Worker { job, worker, event }) => self.worker(job, worker, event)?,
                Some(Note::Lost { job, worker, how }) => self.lose(job, worker, &how)?,
                Some(Note::Servers(event)) => self.servers(event)?,
                Some(Note::Warning(what)) => self.observer.warn(&what),
                Some(Note::Broken(what)) => bail!(what),
            }
        }
        Ok(())
    }

    /// Looks at what is wrong, and takes a sample if one is due.
    async fn look(&mut self) {
        let Self { fabric, diagnosis, observer, sampler, .. } = self;
        let now = fabric.elapsed();
        let is_due = sampler.as_ref().is_some_and(|sampler| sampler.is_due(now));
        if fabric.is_real() || is_due {
            diagnosis.look(*fabric, sampler.is_some()).await;
        }
        if fabric.is_real() {
            for (job, line) in diagnosis.fresh(now) {
                observer.warn(&line);
                if let Some(sampler) = sampler {
                    sampler.note_of(now, Weight::Warning, job, &line);
                }
            }
        }
        if let Some(sampler) = sampler.as_mut().filter(|_| is_due) {
            sampler.sample(*fabric, diagnosis).await;
        }
    }

    fn worker(&mut self, job: usize, worker: usize, event: Event) -> Result<()> {
        match event {
            // Of no interest to who started all of them.
            Event::Waiting { .. } | Event::Unadmitted { .. } | Event::Iteration { .. } => {}
            Event::Round { done, of, note, measured } => {
                self.observer.round(job, worker, done, of, note.as_deref());
                self.diagnosis.round(job, worker, measured);
                if let Some(sampler) = self.sampler {
                    sampler.round(job, worker, done);
                    if let Some(note) = &note {
                        sampler.note(self.fabric.elapsed(), Weight::Info, Some(job), note);
                    }
                }
                if done == warm_up(&self.run.scenario().jobs[job]) {
                    self.warm((job, worker));
                }
            }
            Event::Done(report) => {
                self.gathered.workers[job][worker] = Some(*report);
                self.due -= 1;
                if let Some(sampler) = self.sampler {
                    sampler.done(job);
                }
            }
            Event::GoesOn(loss) => self.go_on(job, &loss),
            Event::Failed { reason } => {
                let name = &self.run.scenario().jobs[job].name;
                bail!("job {name}: worker {worker} failed: {reason}");
            }
        }
        Ok(())
    }

    /// Reports each loss of a job once, although all of its workers report it.
    fn go_on(&mut self, job: usize, loss: &Loss) {
        let said = format!("job {} {loss}", self.run.scenario().jobs[job].name);
        if self.gathered.losses.insert((job, said.clone())) {
            if let Some(sampler) = self.sampler {
                sampler.note(self.fabric.elapsed(), Weight::Warning, Some(job), &said);
            }
            self.observer.warn(&said);
        }
    }

    /// A worker's process has died: an error unless its job goes on without it.
    fn lose(&mut self, job: usize, worker: usize, how: &str) -> Result<()> {
        let all = &self.gathered.workers[job];
        // Whatever happens to it afterwards.
        if all[worker].is_some() {
            return Ok(());
        }
        let name = &self.run.scenario().jobs[job].name;
        self.gathered.lost.insert((job, worker));
        let left = (0..all.len()).filter(|at| !self.gathered.lost.contains(&(job, *at)));
        if !self.fabric.may_go_on(job) || left.count() == 0 {
            bail!("job {name}: worker {worker} failed: {how}");
        }
        self.observer.warn(&format!("job {name}: worker {worker} is lost: {how}"));
        self.due -= 1;
        self.warm((job, worker));
        Ok(())
    }

    /// A worker has finished its warm-up, or never will. A job that goes on without a worker may sum its last
    /// round again.
    fn warm(&mut self, worker: (usize, usize)) {
        if self.cold.remove(&worker) && self.cold.is_empty() {
            self.fabric.end_warm_up();
        }
    }

    fn servers(&mut self, event: servers::Event) -> Result<()> {
        match event {
            servers::Event::Ready
            | servers::Event::Serving { .. }
            | servers::Event::Frames(_)
            | servers::Event::Idle => Ok(()),
            servers::Event::Done { servers, agents } => {
                self.gathered.add(servers, agents);
                Ok(())
            }
            servers::Event::Stalled { job, missing, seconds, quiet } => {
                let scenario = self.run.scenario();
                let known = scenario.jobs.iter().position(|known| known.id.get() == job);
                let name =
                    known.map_or("?", |lane| &scenario.jobs[scenario.lanes(lane).start].name);
                if quiet {
                    bail!(
                        "job {name}: its parameter server has received nothing from any worker for \
                         {seconds:.1} s (worker_timeout in the job file)"
                    );
                }
                let verb = if missing.len() == 1 { "was" } else { "were" };
                Err(anyhow!(
                    "job {name}: {} {verb} not heard from for {seconds:.1} s while others wait \
                     (worker_timeout in the job file)",
                    name_workers(missing)
                ))
            }
        }
    }
}

/// Rounds of a job's warm-up.
fn warm_up(job: &JobSpec) -> u64 {
    match &job.workload {
        Workload::Random(random) => u64::from(random.warm_up),
        Workload::Files(_) | Workload::Digits(_) => 0,
    }
}
