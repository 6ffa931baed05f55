//! Sections of a trace, with a load that is one.
//!
//! A cluster that starts empty and whose jobs stop coming is busy for a part of the time only, and a
//! few long jobs can be most of it. So a section has jobs before and after those that are measured:
//! the former fill the cluster, the latter keep it busy. The load is that of the measured time.

use std::borrow::Borrow;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_cluster::model::Profile;
use tributary_cluster::trace::{Demand, Trace};
use tributary_cluster::{Cluster, Job};

/// Parameters of a workload drawn from a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Workload {
    /// Number of consecutive jobs of the trace that are measured. As many come before them, and half
    /// as many after them. If the trace has fewer in all, the same parts of it.
    pub jobs: usize,
    /// The [load] of the measured time. `None` keeps the trace's times, and so does a load that the jobs do
    /// not reach even if all come at once.
    pub load: Option<f64>,
    /// Replaces the trace's GPU demand.
    pub demand: Option<Demand>,
    /// Factor on the computing time of the models' iterations. Jobs take as long as before without
    /// communication, in fewer iterations if the factor is above one.
    pub compute: f64,
}

/// Jobs, and the time in which those that are measured are submitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Drawn {
    /// All jobs, in the order of submission.
    pub jobs: Vec<Job>,
    /// From the first of the measured jobs to the last one.
    pub window_s: [f64; 2],
}

impl Workload {
    /// Draws jobs from a place of the trace that the seed determines. Omits jobs that are larger than the
    /// cluster, because no policy can place them.
    #[must_use]
    pub fn draw(&self, trace: &Trace, cluster: &Cluster, profiles: &[Profile], seed: u64) -> Drawn {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let section = self.jobs * 5 / 2;
        let spare = trace.submissions.len().saturating_sub(section);
        let first = rng.random_range(0..=spare);
        let last = (first + section).min(trace.submissions.len());
        let mut part =
            Trace { submissions: trace.submissions[first..last].to_vec(), ..trace.clone() };
        let start_s = part.submissions.first().map_or(0.0, |job| job.submit_s);
        for job in &mut part.submissions {
            job.submit_s -= start_s;
        }
        if let Some(demand) = self.demand {
            demand.apply(&mut part, seed);
        }
        part.submissions.retain(|job| job.gpus <= cluster.gpus());
        let scaled = |profile: &Profile| Profile {
            compute_s: profile.compute_s * self.compute,
            ..profile.clone()
        };
        let profiles: Vec<Profile> = profiles.iter().map(scaled).collect();
        let mut jobs = part.jobs(&profiles, seed);
        let submitted = |part: usize| {
            let at = (jobs.len() * part / 5).min(jobs.len().saturating_sub(1));
            jobs.get(at).map_or(0.0, |job| job.submit_s)
        };
        let mut window_s = [submitted(2), submitted(4)];
        if let Some(wished) = self.load
            && let Some(factor) = factor(&jobs, window_s, cluster, wished)
        {
            jobs.iter_mut().for_each(|job| job.submit_s *= factor);
            window_s = window_s.map(|at| at * factor);
        }
        Drawn { jobs, window_s }
    }
}

/// The share of a cluster's GPUs that would be busy on average from the first to the second time if no
/// job waited, and if summing took no time. Jobs that are larger than the cluster do not count.
#[must_use]
pub fn load<J: Borrow<Job>>(
    jobs: impl IntoIterator<Item = J>,
    window_s: [f64; 2],
    cluster: &Cluster,
) -> f64 {
    moved(jobs, window_s, cluster, 1.0)
}

/// [`load`] with all times of submission, and the window, multiplied by a factor.
fn moved<J: Borrow<Job>>(
    jobs: impl IntoIterator<Item = J>,
    window_s: [f64; 2],
    cluster: &Cluster,
    factor: f64,
) -> f64 {
    let [from_s, to_s] = window_s.map(|at| at * factor);
    let mut busy = 0.0;
    for job in jobs {
        let job: &Job = job.borrow();
        if job.gpus <= cluster.gpus() {
            let submit_s = job.submit_s * factor;
            let end_s = submit_s + job.ideal_s();
            busy += f64::from(job.gpus) * (end_s.min(to_s) - submit_s.max(from_s)).max(0.0);
        }
    }
    busy / ((to_s - from_s) * f64::from(cluster.gpus()))
}

/// The factor on all times of submission that gives the wished load in the window, which moves with
/// them. `None` if there is none, as when all jobs are submitted at once.
#[must_use]
pub fn factor<J: Borrow<Job>>(
    jobs: impl IntoIterator<Item = J> + Clone,
    window_s: [f64; 2],
    cluster: &Cluster,
    wished: f64,
) -> Option<f64> {
    /// Halvings of the logarithm's range, which is 60 decades.
    const STEPS: u32 = 100;
    let moved = |logarithm: f64| moved(jobs.clone(), window_s, cluster, logarithm.exp2());
    // More time between jobs is less load.
    let (mut less, mut more) = (100.0, -100.0);
    if !(moved(less) <= wished && moved(more) >= wished) {
        return None;
    }
    for _ in 0..STEPS {
        let middle = f64::midpoint(less, more);
        if moved(middle) > wished { more = middle } else { less = middle }
    }
    Some(less.exp2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_cluster::Shape;
    use tributary_cluster::model::Profiles;
    use tributary_cluster::trace::Generator;

    fn draw(workload: Workload, seed: u64) -> Drawn {
        let trace = Generator::trace(3_000, 7);
        workload.draw(&trace, &Cluster::uniform(&Shape::default()), Profiles::netpack().all(), seed)
    }

    #[test]
    fn a_section_of_a_trace_has_the_requested_load_while_it_is_measured() {
        let cluster = Cluster::uniform(&Shape::default());
        for (wished, seed) in [(0.3, 1), (0.6, 2), (0.9, 3)] {
            let workload = Workload { jobs: 500, load: Some(wished), demand: None, compute: 1.0 };
            let drawn = draw(workload, seed);
            assert_eq!(drawn.jobs.len(), 1_250);
            assert_eq!(drawn.window_s, [500, 1_000].map(|at| drawn.jobs[at].submit_s));
            // Integrated in small steps.
            let [from_s, to_s] = drawn.window_s;
            let step_s = (to_s - from_s) / 1e4;
            let busy = |at_s: f64| {
                let runs =
                    |job: &&Job| (job.submit_s..job.submit_s + job.ideal_s()).contains(&at_s);
                drawn.jobs.iter().filter(runs).map(|job| f64::from(job.gpus)).sum::<f64>()
            };
            let mean: f64 =
                (0..10_000).map(|at| busy(from_s + (f64::from(at) + 0.5) * step_s)).sum::<f64>()
                    / 1e4;
            let measured = mean / f64::from(cluster.gpus());
            assert!((measured / wished - 1.0).abs() < 1e-3, "{measured}, not {wished}");
            assert_eq!(drawn, draw(workload, seed));
            assert_ne!(drawn, draw(workload, seed + 10));
        }
    }

    #[test]
    fn jobs_at_one_instant_have_no_load() {
        let cluster = Cluster::uniform(&Shape::default());
        let mut jobs = draw(Workload { jobs: 4, load: None, demand: None, compute: 1.0 }, 1).jobs;
        jobs.iter_mut().for_each(|job| job.submit_s = 5.0);
        assert_eq!(factor(&jobs, [5.0, 5.0], &cluster, 0.9), None);
    }

    #[test]
    fn jobs_that_no_policy_can_place_are_omitted() {
        let trace = Generator::trace(5_000, 7);
        let shape = Shape { racks: 1, servers_per_rack: 2, ..Shape::default() };
        let cluster = Cluster::uniform(&shape);
        let workload = Workload { jobs: 2_000, load: None, demand: None, compute: 1.0 };
        let jobs = workload.draw(&trace, &cluster, Profiles::netpack().all(), 1).jobs;
        assert!(jobs.len() < 5_000 && jobs.iter().all(|job| job.gpus <= 8));
        let wide = Demand::Poisson { mean: 4.0 };
        let workload = Workload { demand: Some(wide), ..workload };
        let jobs = workload.draw(&trace, &cluster, Profiles::netpack().all(), 1).jobs;
        let mean = jobs.iter().map(|job| f64::from(job.gpus)).sum::<f64>() / jobs.len() as f64;
        assert!((3.5..4.1).contains(&mean), "{mean}");
    }

    #[test]
    fn longer_iterations_are_fewer() {
        let of = |compute| draw(Workload { jobs: 50, load: None, demand: None, compute }, 1).jobs;
        for (usual, longer) in of(1.0).iter().zip(of(4.0)) {
            assert_eq!(longer.compute_s, 4.0 * usual.compute_s);
            assert!((longer.ideal_s() / usual.ideal_s() - 1.0).abs() < 1e-9);
            assert_eq!(longer.gradient_bytes, usual.gradient_bytes);
        }
    }
}
