//! Workloads: the source of tensors, the expected sums, and the use of the results.

mod digits;
mod files;
pub mod need;
mod pauses;
mod random;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::train::verify;
use anyhow::{Context, Result, bail};
use tributary_model::{JobSpec, Workload as Description};
use tributary_protocol::Tensor;

pub use digits::{TrainingReport, reference_digest};
pub use pauses::Pauses;

/// One worker's part of a job, round by round. A round is one all-reduce: one random tensor, all
/// tensors of a file, one step of training.
pub trait Workload: Send {
    /// Rounds of the whole job, at most.
    fn rounds(&self) -> u64;

    /// How many rounds in a row have the same tensors.
    fn repeats(&self) -> u64 {
        1
    }

    /// Number of rounds at the start that are not measured.
    fn warm_up(&self) -> u64 {
        0
    }

    /// This worker's tensors of the next round; `None` after the last.
    ///
    /// # Errors
    /// For example an unreadable file, or a training that diverged.
    fn next(&mut self) -> Result<Option<Vec<Tensor>>>;

    /// The values that this worker compares of each round's only tensor, whole fragments of this many
    /// values; `None` if it compares all tensors. The parts of all workers cover the tensor.
    fn part(&self, _fragment: usize) -> Option<Range<usize>> {
        None
    }

    /// The tensors of all workers in the round that [`next`](Self::next) began, or this
    /// [`part`](Self::part) of them, in the order of the workers, computed independently of the
    /// network; `None` if this host cannot know them.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    fn everyone(&mut self, part: Option<&Range<usize>>) -> Result<Option<Vec<Vec<Tensor>>>>;

    /// Takes the sums of the round.
    ///
    /// # Errors
    /// If they cannot be used or stored.
    fn finish(&mut self, sums: Vec<Tensor>) -> Result<()>;

    /// Goes on after `done` rounds, of which this worker may have summed more, with these workers, by their
    /// indices in the job file.
    ///
    /// # Errors
    /// If the workload cannot: the job file does not let such a job go on.
    fn go_on(&mut self, _done: u64, _workers: &[usize]) -> Result<()> {
        bail!("this workload ends when a worker dies")
    }

    /// A milestone of the last round, such as the loss after an epoch.
    fn note(&self) -> Option<String> {
        None
    }

    /// The result of a training.
    fn training(&self) -> Option<TrainingReport> {
        None
    }
}

/// The workload of a worker.
///
/// # Errors
/// If its files cannot be read or do not fit together.
pub fn of(job: &JobSpec, worker: usize) -> Result<Box<dyn Workload>> {
    Ok(match &job.workload {
        Description::Random(random) => {
            Box::new(random::Random::new(random.clone(), job.workers.len(), worker))
        }
        Description::Files(files) => Box::new(files::Files::open(files, worker)?),
        Description::Digits(digits) => {
            Box::new(digits::Training::new(digits, job.workers.len(), worker)?)
        }
    })
}

/// Verifies the received sums against separately computed ones.
///
/// Threads of one process share a verifier, so that the sums of each round are computed once.
#[derive(Clone)]
pub struct Verifier {
    rule: Rule,
    workers: usize,
    rounds: Arc<Mutex<HashMap<Compared, Expected>>>,
}

/// A round, or the first of the rounds that have the same tensors, and the part of them.
type Compared = (u64, Option<Range<usize>>);

struct Expected {
    /// `None` if this host cannot know them.
    sums: Option<Arc<Vec<Tensor>>>,
    /// How often workers of this process have asked.
    asked: u64,
}

impl Verifier {
    /// A verifier of a job, shared by `workers` workers.
    pub fn new(job: &JobSpec, values_per_packet: u16, workers: usize) -> Self {
        Self { rule: Rule::of(job, values_per_packet), workers, rounds: Arc::default() }
    }

    /// Forgets the sums of rounds that are summed again by other workers.
    pub fn forget(&self) {
        self.rounds.lock().expect("no thread panics while it holds this").clear();
    }

    /// Compares a worker's sums of a round, or its part of them, bit by bit. Returns how many values
    /// were equal; 0 if this host does not know the other workers' tensors.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, round: u64, workload: &mut dyn Workload, sums: &[Tensor]) -> Result<u64> {
        let part = workload.part(self.rule.fragment);
        let Some(expected) = self.expected(round, part.as_ref(), workload)? else { return Ok(0) };
        anyhow::ensure!(
            expected.len() == sums.len(),
            "round {round}: {} sums came back instead of {}",
            sums.len(),
            expected.len()
        );
        let mut values = 0;
        for (tensor, (expected, got)) in expected.iter().zip(sums).enumerate() {
            match (expected, got) {
                (Tensor::F32(expected), Tensor::F32(got)) => {
                    verify::same_bits(expected, compared(got, part.as_ref()))
                }
                (Tensor::I32(expected), Tensor::I32(got)) => {
                    verify::same_integers(expected, compared(got, part.as_ref()))
                }
                _ => anyhow::bail!("round {round}, tensor {tensor}: the type of the sum changed"),
            }
            .with_context(|| {
                format!("WRONG SUM in round {round}, tensor {tensor}: please report this")
            })?;
            values += expected.len() as u64;
        }
        Ok(values)
    }

    fn expected(
        &self,
        round: u64,
        part: Option<&Range<usize>>,
        workload: &mut dyn Workload,
    ) -> Result<Option<Arc<Vec<Tensor>>>> {
        let mut rounds = self.rounds.lock().expect("no thread panics while it holds this");
        let repeats = workload.repeats();
        let key = (round - round % repeats, part.cloned());
        let expected = match rounds.entry(key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let sums = match workload.everyone(part)? {
                    Some(all) => Some(Arc::new(self.rule.sums(&all)?)),
                    None => None,
                };
                new.insert(Expected { sums, asked: 0 })
            }
        };
        expected.asked += 1;
        let sums = expected.sums.clone();
        // Each worker has a part of its own.
        let workers = if part.is_some() { 1 } else { self.workers as u64 };
        if expected.asked == repeats * workers {
            rounds.remove(&key);
        }
        Ok(sums)
    }
}

/// The values of a sum that are compared; none if the sum is too short.
fn compared<'a, T>(sum: &'a [T], part: Option<&Range<usize>>) -> &'a [T] {
    part.map_or(sum, |part| sum.get(part.clone()).unwrap_or_default())
}

/// The sums that a job's protocol defines, computed without the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    scale: f64,
    fragment: usize,
    /// Whether fragments with too large values use a coarser scale instead of floats.
    ladder: bool,
}

impl Rule {
    /// The rule of a job.
    pub fn of(job: &JobSpec, values_per_packet: u16) -> Self {
        Self {
            scale: job.scale,
            fragment: values_per_packet.into(),
            ladder: job.protocol.has_rounds(),
        }
    }

    /// The sum of one tensor over all workers.
    pub fn sum(&self, all: &[&[f32]]) -> Vec<f32> {
        let sum = if self.ladder { verify::exact_sum_on_ladder } else { verify::exact_sum };
        sum(all, self.scale, self.fragment)
    }

    /// The sums of all workers' tensors.
    fn sums(&self, all: &[Vec<Tensor>]) -> Result<Vec<Tensor>> {
        let tensors = all.first().map_or(0, Vec::len);
        let sum = |tensor: usize| match &all[0][tensor] {
            Tensor::F32(_) => {
                let own = all.iter().filter_map(|own| floats(&own[tensor]));
                Ok(Tensor::F32(self.sum(&own.collect::<Vec<_>>()).into()))
            }
            Tensor::I32(_) => {
                let own = all.iter().filter_map(|own| integers(&own[tensor]));
                Ok(Tensor::I32(verify::exact_sum_i32(&own.collect::<Vec<_>>())?.into()))
            }
        };
        (0..tensors).map(sum).collect()
    }
}

fn floats(tensor: &Tensor) -> Option<&[f32]> {
    match tensor {
        Tensor::F32(values) => Some(values),
        Tensor::I32(_) => None,
    }
}

fn integers(tensor: &Tensor) -> Option<&[i32]> {
    match tensor {
        Tensor::I32(values) => Some(values),
        Tensor::F32(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_share_the_verification_find_every_wrong_value() {
        const VALUES: usize = 200;
        let text = format!(
            "[topology]\nkind = \"star\"\n[[job]]\nworkers = 3\nworkload = {{ kind = \"random\", \
             tensors = 1, repeat = 2, elements = {VALUES}, verify = \"share\" }}\n"
        );
        let job = tributary_model::jobfile::parse(&text, "job.toml").unwrap().jobs.remove(0);
        let verifier = Verifier::new(&job, 64, 3);
        let mut workers: Vec<_> = (0..3).map(|worker| of(&job, worker).unwrap()).collect();
        for round in 0..2 {
            for worker in &mut workers {
                worker.next().unwrap();
            }
            let all = workers[0].everyone(None).unwrap().unwrap();
            let sums = Rule::of(&job, 64).sums(&all).unwrap();
            let check = |worker: &mut Box<dyn Workload>, sums: &[Tensor]| {
                verifier.check(round, worker.as_mut(), sums)
            };
            let compared: u64 = workers.iter_mut().map(|own| check(own, &sums).unwrap()).sum();
            assert_eq!(compared, VALUES as u64);
            for wrong in 0..VALUES {
                let mut sums = sums.clone();
                let Tensor::F32(values) = &mut sums[0] else { panic!("floats") };
                values[wrong] += 1.0;
                let found = workers.iter_mut().map(|own| u32::from(check(own, &sums).is_err()));
                assert_eq!(found.sum::<u32>(), 1, "value {wrong}");
            }
            let short = [Tensor::F32(Vec::new().into())];
            assert!(workers.iter_mut().all(|own| check(own, &short).is_err()), "nothing came back");
        }
    }
}
