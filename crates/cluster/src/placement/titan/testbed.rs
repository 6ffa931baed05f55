//! A model of Titan's testbed: 8 servers of 4 GPUs, 100 Gb/s, background jobs, and one training job
//! placed by each policy (Titan §V-C, figures 8 to 11).

use crate::{Cluster, Collective, Job, JobId, Pending, Plan, Policy, Round, Shape, State};

use crate::placement::elasticflow::{Elasticflow, Reading};
use crate::placement::{HiveD, TensorProfile, Tiresias, Titan};

/// A model to train, for 32 × 32 pixels and 100 classes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// The distribution of its gradients over tensors.
    pub profile: TensorProfile,
    /// Images per second of one GPU without communication.
    pub images_per_s: f64,
}

/// ResNet-50. 200 epochs on 8 GPUs take Elasticflow about 3 147 s including communication (figure
/// 12a), hence about 400 images/s per GPU.
pub const RESNET_50: Model =
    Model { profile: TensorProfile::of("ResNet-50", 23_712_932, 2_359_296), images_per_s: 400.0 };

/// VGG-16. 11.11 machine hours on 8 machines (figure 9b) are 25 s per epoch, 8.4 s of them
/// communication (figure 11b), hence about 376 images/s per GPU.
pub const VGG_16: Model =
    Model { profile: TensorProfile::of("VGG-16", 34_015_396, 16_777_216), images_per_s: 376.0 };

/// The testbed and its jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct Testbed {
    /// Number of background jobs of each server, one GPU each.
    pub background: Vec<u32>,
    /// Number of GPUs of each server.
    pub gpus_per_server: u32,
    /// Bandwidth of a server's link in Gb/s.
    pub link_gbps: f64,
    /// The collective that sums gradients.
    pub collective: Collective,
    /// Models to train.
    pub models: Vec<Model>,
    /// Numbers of workers.
    pub workers: Vec<u32>,
    /// Number of images per epoch.
    pub images: f64,
    /// Number of images per iteration over all workers.
    pub batch: f64,
    /// Number of epochs of a job.
    pub epochs: f64,
}

impl Default for Testbed {
    /// §V-C. Only figure 8 shows which server has how many of the 0 to 3 background jobs, and the
    /// text does not suffice to determine it. These six busy servers with 10 idle GPUs agree with
    /// the text: Titan needs no idle machine for 8 workers (machine hours of figure 9b), and leaves
    /// one idle with 12.
    fn default() -> Self {
        Self {
            background: vec![0, 0, 1, 2, 2, 3, 3, 3],
            gpus_per_server: 4,
            link_gbps: 100.0,
            collective: Collective::HalvingDoubling,
            models: vec![RESNET_50, VGG_16],
            workers: vec![4, 6, 8, 10, 12],
            images: 50_000.0,
            batch: 512.0,
            epochs: 200.0,
        }
    }
}

/// The result of one policy for one job.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The policy.
    pub policy: &'static str,
    /// The model.
    pub model: &'static str,
    /// Number of workers, one GPU each.
    pub workers: u32,
    /// Its plan (figure 8).
    pub plan: Plan,
    /// Number of machines in use, including background jobs.
    pub machines: u32,
    /// Number of those machines times the run time of the job, in hours (figure 9).
    pub machine_hours: f64,
    /// Images per second (figure 10).
    pub images_per_s: f64,
    /// Communication time per epoch in seconds (figure 11).
    pub communication_s: f64,
    /// The corresponding numbers in the paper's text.
    pub published: Published,
}

/// Numbers in the paper's text. Its other values are only in figures.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Published {
    /// Figure 9.
    pub machine_hours: Option<f64>,
    /// Figure 10.
    pub images_per_s: Option<f64>,
    /// Figure 11.
    pub communication_s: Option<f64>,
}

impl Published {
    fn of(policy: &str, model: &str, workers: u32) -> Self {
        let at = ["Titan", "Elasticflow", "Tiresias", "HiveD"].iter().position(|&it| it == policy);
        let Some(at) = at else { return Self::default() };
        match (model, workers) {
            ("ResNet-50", 12) => {
                Self { images_per_s: Some([4389.0, 4422.0, 4208.0, 2610.0][at]), ..Self::default() }
            }
            ("VGG-16", 8) => Self {
                machine_hours: Some([8.67, 11.11, 11.12, 12.33][at]),
                communication_s: Some([8.7, 8.4, 8.3, 12.0][at]),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}

/// Why a testbed cannot run its jobs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// A server has more background jobs than GPUs.
    #[error("server {server} has {gpus} GPUs, fewer than its {jobs} background jobs")]
    Background {
        /// The server.
        server: usize,
        /// Number of its GPUs.
        gpus: u32,
        /// Number of its background jobs.
        jobs: u32,
    },
    /// There are fewer idle GPUs than workers.
    #[error("{policy} finds no {workers} idle GPUs for {model}: have fewer background jobs")]
    Workers {
        /// The policy.
        policy: &'static str,
        /// The model.
        model: &'static str,
        /// Number of workers.
        workers: u32,
    },
}

impl Testbed {
    /// One row for every model, number of workers and policy.
    ///
    /// # Errors
    ///
    /// If a job does not fit.
    pub fn rows(&self) -> Result<Vec<Row>, Unfit> {
        let cluster = Cluster::uniform(&Shape {
            racks: 1,
            servers_per_rack: self.background.len() as u32,
            gpus_per_server: self.gpus_per_server,
            link_gbps: self.link_gbps,
            ..Shape::default()
        });
        let mut rows = Vec::new();
        for model in &self.models {
            for &workers in &self.workers {
                for mut policy in self.policies() {
                    rows.push(self.row(&cluster, policy.as_mut(), model, workers)?);
                }
            }
        }
        Ok(rows)
    }

    fn policies(&self) -> [Box<dyn Policy>; 4] {
        let collective = self.collective;
        let profiles = self.models.iter().map(|model| model.profile).collect();
        [
            Box::new(Titan { collective, ..Titan::default() }),
            Box::new(Elasticflow::new(collective, Reading::default())),
            Box::new(Tiresias { profiles, ..Tiresias::new(collective) }),
            Box::new(HiveD::new(collective)),
        ]
    }

    fn row(
        &self,
        cluster: &Cluster,
        policy: &mut dyn Policy,
        model: &Model,
        workers: u32,
    ) -> Result<Row, Unfit> {
        let mut state = self.busy(cluster)?;
        let job = self.job(model, workers);
        let pending = Pending { job: job.clone(), value: job.value };
        policy.place(&mut Round::new(&mut state), &[pending]);
        let Some(running) = state.running().get(&job.id) else {
            return Err(Unfit::Workers {
                policy: policy.name(),
                model: model.profile.model,
                workers,
            });
        };
        let plan = running.plan.clone();
        let allreduce_s = self.collective.time_s(cluster, job.gradient_bytes, &plan.ranks);
        let iterations = self.images / self.batch;
        let epoch_s = iterations * (job.compute_s + allreduce_s);
        let launched = |&server: &_| state.free(server) < cluster.server(server).gpus;
        let machines = cluster.server_indices().filter(launched).count() as u32;
        Ok(Row {
            policy: policy.name(),
            model: model.profile.model,
            workers,
            plan,
            machines,
            machine_hours: f64::from(machines) * self.epochs * epoch_s / 3600.0,
            images_per_s: self.images / epoch_s,
            communication_s: iterations * allreduce_s,
            published: Published::of(policy.name(), model.profile.model, workers),
        })
    }

    fn job(&self, model: &Model, workers: u32) -> Job {
        Job {
            id: JobId(0),
            submit_s: 0.0,
            gpus: workers,
            iterations: self.epochs * self.images / self.batch,
            compute_s: self.batch / (f64::from(workers) * model.images_per_s),
            gradient_bytes: model.profile.gradient_bytes,
            value: 1.0,
        }
    }

    /// The testbed with its background jobs running.
    fn busy<'c>(&self, cluster: &'c Cluster) -> Result<State<'c>, Unfit> {
        let mut state = State::new(cluster);
        for (server, (&jobs, index)) in self.background.iter().zip(1..).enumerate() {
            if jobs == 0 {
                continue;
            }
            // All background jobs of a server as one job, which makes no difference.
            let job = Job { id: JobId(index), ..self.job(&RESNET_50, jobs) };
            let at = cluster.server_indices().nth(server).expect("a server for each");
            state.start(&job, Plan::on_one(at, jobs)).map_err(|_| Unfit::Background {
                server,
                gpus: self.gpus_per_server,
                jobs,
            })?;
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(model: &str, workers: u32) -> Vec<Row> {
        let mut rows = Testbed::default().rows().unwrap();
        rows.retain(|row| row.model == model && row.workers == workers);
        rows
    }

    fn of<'r>(rows: &'r [Row], policy: &str) -> &'r Row {
        rows.iter().find(|row| row.policy == policy).unwrap()
    }

    /// §V-C, experiment 5: machines that Titan leaves idle.
    #[test]
    fn titan_leaves_two_machines_idle_with_8_workers_and_one_with_12() {
        for model in ["ResNet-50", "VGG-16"] {
            assert_eq!(of(&rows(model, 8), "Titan").machines, 6);
            assert_eq!(of(&rows(model, 12), "Titan").machines, 7);
        }
    }

    /// §V-C, experiments 5 and 7: the text on VGG-16 and 8 workers.
    #[test]
    fn eight_workers_train_vgg_16_in_the_order_of_the_paper() {
        let rows = rows("VGG-16", 8);
        let [titan, elasticflow, tiresias, hived] =
            ["Titan", "Elasticflow", "Tiresias", "HiveD"].map(|policy| of(&rows, policy));
        assert_eq!(elasticflow.plan.workers().len(), 2, "two idle servers");
        assert_eq!(tiresias.plan, elasticflow.plan, "VGG is sensitive");
        assert!(elasticflow.communication_s <= titan.communication_s);
        assert!(titan.communication_s <= hived.communication_s);
        assert!(titan.machine_hours < elasticflow.machine_hours);
        assert!(titan.machine_hours <= hived.machine_hours);
    }

    #[test]
    fn more_background_jobs_than_gpus_are_refused() {
        let testbed = Testbed { background: vec![0, 5], ..Testbed::default() };
        let error = testbed.rows().unwrap_err();
        assert_eq!(error.to_string(), "server 1 has 4 GPUs, fewer than its 5 background jobs");
    }

    #[test]
    fn more_workers_than_idle_gpus_are_refused() {
        let testbed = Testbed { background: vec![3, 3], ..Testbed::default() };
        assert!(matches!(testbed.rows(), Err(Unfit::Workers { workers: 4, .. })));
    }
}
