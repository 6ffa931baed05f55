//! Tiresias's placement, as a baseline in Titan's paper (§V-A).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::{Collective, Job, Pending, Plan, Policy, Round, ServerIndex, State};

use crate::placement::deal::plan_of;
use crate::placement::machines::{
    Machine, Shares, consolidated, in_order, with_idle_gpus, within_reach,
};

/// Tiresias's profile of a model: the distribution of its gradients over tensors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TensorProfile {
    /// The model.
    pub model: &'static str,
    /// Gradients of the whole model in bytes.
    pub gradient_bytes: f64,
    /// Gradients of its largest tensor in bytes.
    pub largest_bytes: f64,
}

/// The models of the papers with their numbers of parameters (4 bytes each), in total and in the
/// largest tensor: the first fully connected layer of VGG, the second of AlexNet, a convolution of
/// ResNet.
pub const PROFILES: [TensorProfile; 7] = [
    TensorProfile::of("VGG-11", 132_863_336, 102_760_448),
    TensorProfile::of("VGG-16", 138_357_544, 102_760_448),
    TensorProfile::of("VGG-19", 143_667_240, 102_760_448),
    TensorProfile::of("AlexNet", 61_100_840, 37_748_736),
    TensorProfile::of("ResNet-50", 25_557_032, 2_359_296),
    TensorProfile::of("ResNet-101", 44_549_160, 2_359_296),
    TensorProfile::of("ResNet-152", 60_192_808, 2_359_296),
];

impl TensorProfile {
    pub(crate) const fn of(model: &'static str, parameters: u32, largest: u32) -> Self {
        Self { model, gradient_bytes: 4.0 * parameters as f64, largest_bytes: 4.0 * largest as f64 }
    }

    /// The share of the gradients in the largest tensor.
    #[must_use]
    pub fn skew(&self) -> f64 {
        self.largest_bytes / self.gradient_bytes
    }
}

/// Few machines for models that are sensitive to distribution, several for the others.
///
/// A model is sensitive if few of its tensors hold most of its gradients (Tiresias's profiler looks
/// at the sizes of messages). Traces do not name models, so a job counts as the profiled model with
/// the nearest size. Sensitive jobs use as few machines as possible. Other jobs are distributed
/// over machines in use, one GPU at a time to the machine with the most idle GPUs left. The rest of
/// such a job uses as few other machines as possible.
#[derive(Clone, PartialEq, Debug)]
pub struct Tiresias {
    /// The collective that sums gradients.
    pub collective: Collective,
    /// The profiled models; at least one.
    pub profiles: Vec<TensorProfile>,
    /// Models with at least this skew are consolidated.
    pub consolidate_from: f64,
}

impl Tiresias {
    /// For ranks that use this collective, with the models of [`PROFILES`]. VGG and AlexNet hold 60
    /// % or more of their gradients in one tensor, ResNet less than 10 %. Models are consolidated
    /// from a quarter on.
    #[must_use]
    pub fn new(collective: Collective) -> Self {
        Self { collective, profiles: PROFILES.to_vec(), consolidate_from: 0.25 }
    }

    /// Whether a job is sensitive to distribution.
    #[must_use]
    pub fn is_sensitive(&self, job: &Job) -> bool {
        let apart =
            |profile: &&TensorProfile| (profile.gradient_bytes / job.gradient_bytes).ln().abs();
        let nearest = self.profiles.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)));
        nearest.is_some_and(|profile| profile.skew() >= self.consolidate_from)
    }

    fn plan(&self, state: &State<'_>, job: &Job) -> Option<Plan> {
        let consolidates = job.gpus == 1 || self.is_sensitive(job);
        let place = |machines: Vec<Machine>| {
            if consolidates {
                consolidated(machines, job.gpus)
            } else {
                spread(&machines, job.gpus)
            }
        };
        let machines = with_idle_gpus(state).collect();
        let shares = within_reach(state.cluster(), machines, place)?;
        Some(plan_of(&shares, self.collective))
    }
}

fn spread(machines: &[Machine], gpus: u32) -> Option<Shares> {
    let used = machines.iter().filter(|machine| !machine.idle);
    let mut most: BinaryHeap<_> =
        used.map(|machine| (machine.free, Reverse(machine.server))).collect();
    let mut shares = BTreeMap::<ServerIndex, u32>::new();
    let mut rest = gpus;
    while rest > 0
        && let Some((free, Reverse(server))) = most.pop()
    {
        *shares.entry(server).or_default() += 1;
        rest -= 1;
        if free > 1 {
            most.push((free - 1, Reverse(server)));
        }
    }
    let mut shares: Shares = shares.into_iter().collect();
    if rest > 0 {
        let idle = machines.iter().copied().filter(|machine| machine.idle);
        shares.extend(consolidated(idle.collect(), rest)?);
    }
    Some(shares)
}

impl Policy for Tiresias {
    fn name(&self) -> &'static str {
        "Tiresias"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        in_order(round, waiting, |state, job| self.plan(state, job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::testing::{cluster, job, occupied};

    fn tiresias() -> Tiresias {
        Tiresias::new(Collective::HalvingDoubling)
    }

    fn workers(free: &[u32], gpus: u32, gradient_bytes: f64) -> Option<Vec<(u32, u32)>> {
        let cluster = cluster(free.len() as u32, 8);
        let state = occupied(&cluster, free);
        let job = Job { gradient_bytes, ..job(0, gpus) };
        let plan = tiresias().plan(&state, &job)?;
        Some(plan.workers().into_iter().map(|(server, gpus)| (server.0, gpus)).collect())
    }

    const VGG_16: f64 = 553e6;
    const RESNET_50: f64 = 102e6;

    #[test]
    fn models_with_one_large_tensor_are_sensitive() {
        let sensitive: Vec<_> = PROFILES
            .into_iter()
            .filter(|profile| {
                let gradient_bytes = profile.gradient_bytes;
                tiresias().is_sensitive(&Job { gradient_bytes, ..job(0, 2) })
            })
            .map(|profile| profile.model)
            .collect();
        assert_eq!(sensitive, ["VGG-11", "VGG-16", "VGG-19", "AlexNet"]);
    }

    #[test]
    fn every_model_that_a_trace_may_be_given_is_profiled() {
        for known in crate::model::Profiles::known().all() {
            let same = |profile: &&TensorProfile| profile.gradient_bytes == known.gradient_bytes();
            let profile = PROFILES.iter().find(same).unwrap();
            assert_eq!(profile.model.to_lowercase().replace('-', ""), known.name);
        }
    }

    #[test]
    fn sensitive_jobs_are_consolidated() {
        assert_eq!(workers(&[8, 5, 3, 6], 6, VGG_16), Some(vec![(3, 6)]));
    }

    #[test]
    fn others_level_the_machines_in_use() {
        assert_eq!(workers(&[8, 5, 3, 6], 6, RESNET_50), Some(vec![(1, 3), (3, 3)]));
        assert_eq!(workers(&[8, 1, 2, 8], 6, RESNET_50), Some(vec![(0, 3), (1, 1), (2, 2)]));
    }

    #[test]
    fn single_gpus_go_where_they_leave_least() {
        assert_eq!(workers(&[8, 5, 3, 6], 1, RESNET_50), Some(vec![(2, 1)]));
    }

    #[test]
    fn too_large_a_job_waits() {
        assert_eq!(workers(&[1, 2], 4, RESNET_50), None);
        assert_eq!(workers(&[1, 2], 4, VGG_16), None);
    }
}
