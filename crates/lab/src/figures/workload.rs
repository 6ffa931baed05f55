//! Parts of a trace, scaled to a load that allows comparing clusters of any size.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_cluster::model::Profile;
use tributary_cluster::trace::{Demand, Trace};
use tributary_cluster::{Cluster, Job};

/// Parameters of a workload drawn from a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Workload {
    /// Number of consecutive jobs of the trace, from a position that the seed determines. If the
    /// trace has fewer jobs, all are taken.
    pub jobs: usize,
    /// GPU-time of the jobs divided by the GPU-time of the cluster from the first to the last
    /// submission. `None` keeps the trace's times.
    pub load: Option<f64>,
    /// Replaces the trace's GPU demand.
    pub demand: Option<Demand>,
    /// Factor on the computing time of the models' iterations. Jobs take as long as before without
    /// communication, in fewer iterations if the factor is above one.
    pub compute: f64,
}

impl Workload {
    /// Draws jobs. Omits jobs that are larger than the cluster, because no policy can place them.
    #[must_use]
    pub fn draw(
        &self,
        trace: &Trace,
        cluster: &Cluster,
        profiles: &[Profile],
        seed: u64,
    ) -> Vec<Job> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let spare = trace.submissions.len().saturating_sub(self.jobs);
        let first = rng.random_range(0..=spare);
        let last = (first + self.jobs).min(trace.submissions.len());
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
        if let Some(load) = self.load {
            scale(&mut jobs, cluster, load);
        }
        jobs
    }
}

/// GPU-time of jobs divided by the GPU-time of a cluster from the first to the last submission.
/// Jobs that are larger than the cluster are rejected and do not count.
#[must_use]
pub fn load(jobs: &[Job], cluster: &Cluster) -> f64 {
    let possible = jobs.iter().filter(|job| job.gpus <= cluster.gpus());
    let work: f64 = possible.map(|job| f64::from(job.gpus) * job.ideal_s()).sum();
    let last_s = jobs.iter().map(|job| job.submit_s).fold(0.0, f64::max);
    work / (last_s * f64::from(cluster.gpus()))
}

/// Scales the times of submission to reach the desired load.
fn scale(jobs: &mut [Job], cluster: &Cluster, wished: f64) {
    let factor = load(jobs, cluster) / wished;
    if factor.is_finite() {
        for job in jobs {
            job.submit_s *= factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_cluster::Shape;
    use tributary_cluster::model::Profiles;
    use tributary_cluster::trace::Generator;

    #[test]
    fn a_part_of_a_trace_has_the_requested_load() {
        let trace = Generator::trace(2_000, 7);
        let cluster = Cluster::uniform(&Shape::default());
        let profiles = Profiles::netpack();
        for (wished, seed) in [(0.3, 1), (0.9, 2), (2.0, 3)] {
            let workload = Workload { jobs: 500, load: Some(wished), demand: None, compute: 1.0 };
            let jobs = workload.draw(&trace, &cluster, profiles.all(), seed);
            assert_eq!(jobs.len(), 500);
            assert!((load(&jobs, &cluster) - wished).abs() < 1e-9);
            assert_eq!(jobs[0].submit_s, 0.0);
            let again = workload.draw(&trace, &cluster, profiles.all(), seed);
            assert_eq!(jobs, again);
            let other = workload.draw(&trace, &cluster, profiles.all(), seed + 10);
            assert_ne!(jobs, other);
        }
    }

    #[test]
    fn jobs_that_no_policy_can_place_are_omitted() {
        let trace = Generator::trace(5_000, 7);
        let shape = Shape { racks: 1, servers_per_rack: 2, ..Shape::default() };
        let cluster = Cluster::uniform(&shape);
        let workload = Workload { jobs: 5_000, load: None, demand: None, compute: 1.0 };
        let jobs = workload.draw(&trace, &cluster, Profiles::netpack().all(), 1);
        assert!(jobs.len() < 5_000 && jobs.iter().all(|job| job.gpus <= 8));
        let wide = Demand::Poisson { mean: 4.0 };
        let workload = Workload { demand: Some(wide), ..workload };
        let jobs = workload.draw(&trace, &cluster, Profiles::netpack().all(), 1);
        let mean = jobs.iter().map(|job| f64::from(job.gpus)).sum::<f64>() / jobs.len() as f64;
        assert!((3.5..4.1).contains(&mean), "{mean}");
    }

    #[test]
    fn longer_iterations_are_fewer() {
        let trace = Generator::trace(50, 7);
        let cluster = Cluster::uniform(&Shape::default());
        let draw = |compute| {
            let workload = Workload { jobs: 50, load: None, demand: None, compute };
            workload.draw(&trace, &cluster, Profiles::netpack().all(), 1)
        };
        for (usual, longer) in draw(1.0).iter().zip(draw(4.0)) {
            assert_eq!(longer.compute_s, 4.0 * usual.compute_s);
            assert!((longer.ideal_s() / usual.ideal_s() - 1.0).abs() < 1e-9);
            assert_eq!(longer.gradient_bytes, usual.gradient_bytes);
        }
    }
}
