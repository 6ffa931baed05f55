//! A trace on a testbed with every packet of every iteration, in one run.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_cluster::{Cluster, Job, JobId, Pending, Plan, Policy, Round, State};
use tributary_protocol::Time;
use tributary_wire as wire;

use super::Error;
use super::bench::{Bench, Work};
use super::rig::{PACKET, Rig};
use super::shape::Sender;

/// A running job.
#[derive(Debug)]
struct Running {
    plan: Plan,
    start_s: f64,
    /// On one server it sends nothing, and ends at this time.
    end_s: Option<f64>,
}

/// A job that ran.
#[derive(Clone, PartialEq, Debug)]
pub struct Ran {
    /// The job.
    pub job: JobId,
    /// Its placement.
    pub plan: Plan,
    /// Start in seconds.
    pub start_s: f64,
    /// Time of its last sum in seconds.
    pub end_s: f64,
}

/// Runs jobs that are placed in rounds at every multiple of a period, with every packet of every
/// iteration, as a reference for [`Packets`](super::Packets). Time is not scaled: jobs should take
/// milliseconds. Iterations are not split. Jobs are returned in the order of their numbers.
///
/// # Errors
///
/// If the cluster cannot be a testbed, or a sum was wrong.
///
/// # Panics
///
/// If the period is not above zero, or the policy leaves a job waiting in an idle cluster.
pub fn replay(
    cluster: &Cluster,
    jobs: &[Job],
    policy: &mut dyn Policy,
    period_s: f64,
) -> Result<Vec<Ran>, Error> {
    assert!(period_s > 0.0, "rounds are some time apart");
    let rig = Rig::new(cluster)?;
    let mut bench = Bench::new(&rig)?;
    let mut state = State::new(cluster);
    let mut coming: Vec<Job> = jobs.to_vec();
    coming.sort_by(|a, b| b.submit_s.total_cmp(&a.submit_s).then(b.id.cmp(&a.id)));
    let mut waiting: Vec<Pending> = Vec::new();
    let mut running: BTreeMap<JobId, Running> = BTreeMap::new();
    let mut on_bench: BTreeMap<wire::JobId, JobId> = BTreeMap::new();
    let mut ran = Vec::new();
    for round in 0_u32.. {
        let now_s = f64::from(round) * period_s;
        // Jobs end until the next round.
        while let Some(over) = bench.run_until(Time::ZERO + Duration::from_secs_f64(now_s))? {
            let id = on_bench.remove(&over).expect("it was put there");
            let Running { plan, start_s, .. } = running.remove(&id).expect("it runs");
            let end_s = (bench.now() - Time::ZERO).as_secs_f64();
            state.end(id);
            ran.push(Ran { job: id, plan, start_s, end_s });
        }
        let local: Vec<(JobId, f64)> =
            running.iter().filter_map(|(&id, job)| Some((id, job.end_s?))).collect();
        for (id, end_s) in local.into_iter().filter(|(_, end_s)| *end_s <= now_s) {
            let Running { plan, start_s, .. } = running.remove(&id).expect("it runs");
            state.end(id);
            ran.push(Ran { job: id, plan, start_s, end_s });
        }
        while let Some(job) = coming.pop_if(|job| job.submit_s <= now_s) {
            waiting.push(Pending { value: job.value, job });
        }
        let mut batch = Round::in_network(&mut state);
        if !waiting.is_empty() {
            policy.place(&mut batch, &waiting);
        }
        let started = batch.started().to_vec();
        for id in started {
            let at = waiting.iter().position(|one| one.job.id == id).expect("it waited");
            let job = waiting.remove(at).job;
            let plan = state.running()[&id].plan.clone();
            let end_s = match Sender::of(&plan, rig.pool > 0) {
                None => Some(now_s + job.ideal_s()),
                Some(sender) => {
                    on_bench.insert(bench.start(&sender, work(&rig, &job))?, id);
                    None
                }
            };
            running.insert(id, Running { plan, start_s: now_s, end_s });
        }
        waiting.iter_mut().for_each(|one| one.value += 1.0);
        if waiting.is_empty() && running.is_empty() && coming.is_empty() {
            break;
        }
        assert!(!running.is_empty() || waiting.is_empty(), "the policy leaves jobs waiting");
    }
    ran.sort_by_key(|job| job.job);
    Ok(ran)
}

fn work(rig: &Rig, job: &Job) -> Work {
    Work {
        compute: Duration::from_secs_f64(job.compute_s),
        packets: (rig.alone_s(job) / PACKET.as_secs_f64()).round().max(1.0) as u32,
        ahead: 1,
        iterations: job.iterations.ceil() as u64,
    }
}
