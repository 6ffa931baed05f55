//! Durations of sums on a testbed: requested by a simulation, measured with packets, cached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tributary_cluster::simulate::Sums;
use tributary_cluster::{Cluster, JobId, State};

use super::Error;
use super::rates::{Rate, measure};
use super::rig::{ROUND_TRIP, Rig};
use super::shape::{Sender, canonical, components};
use super::turns::{self, Rhythm};

/// Memory is plentiful if it is this multiple of what the senders have in flight: then only jobs
/// that share servers affect each other.
const PLENTY: usize = 2;

/// A rhythm as a key: the bits of both times.
type Key = (u64, u64);

/// Cached results for sets of jobs.
type Known<K, V> = Mutex<HashMap<Vec<K>, Arc<[V]>>>;

/// The work done so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Effort {
    /// Number of sets of senders that were measured.
    pub sets: u64,
    /// Frame arrivals at hosts or the switch in these measurements.
    pub hops: u64,
    /// Mean standard error of the rates, relative to the link's rate.
    pub mean_error: f64,
    /// The greatest of these errors.
    pub greatest_error: f64,
    /// Number of sets of running jobs whose turns were simulated.
    pub played: u64,
}

/// A testbed whose jobs' sums are timed by packets.
///
/// Simulations on several threads may share it: its answers depend only on the running jobs.
#[derive(Debug)]
pub struct Packets {
    rig: Rig,
    rates: Known<Sender, Rate>,
    sums: Known<(Sender, Key), f64>,
    hops: Mutex<u64>,
}

impl Packets {
    /// Builds a testbed with the servers, links and switch memory of the cluster.
    ///
    /// # Errors
    ///
    /// If the cluster is not one rack with identical links.
    pub fn of(cluster: &Cluster) -> Result<Self, Error> {
        Ok(Self {
            rig: Rig::new(cluster)?,
            rates: Mutex::default(),
            sums: Mutex::default(),
            hops: Mutex::default(),
        })
    }

    /// The work done so far.
    #[must_use]
    pub fn effort(&self) -> Effort {
        let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let errors = || rates.values().flat_map(|rates| rates.iter().map(|rate| rate.error));
        let count = errors().count().max(1);
        Effort {
            sets: rates.len() as u64,
            hops: *self.hops.lock().unwrap_or_else(PoisonError::into_inner),
            mean_error: errors().sum::<f64>() / count as f64,
            greatest_error: errors().fold(0.0, f64::max),
            played: self.sums.lock().unwrap_or_else(PoisonError::into_inner).len() as u64,
        }
    }

    /// Rates of jobs that send at the same time, in order.
    fn rates(&self, senders: &[(Sender, ())]) -> Result<Vec<Rate>, Error> {
        let mut rates = vec![None; senders.len()];
        for members in self.apart(senders) {
            let own: Vec<(Sender, ())> = members.iter().map(|&at| senders[at].clone()).collect();
            let (own, went) = canonical(&own);
            let own: Vec<Sender> = own.into_iter().map(|(sender, ())| sender).collect();
            let known = remembered(&self.rates, own, |own| {
                let measured = measure(&self.rig, own)?;
                *self.hops.lock().unwrap_or_else(PoisonError::into_inner) += measured.hops;
                Ok(alike(own, &measured.rates).into())
            })?;
            for (&at, to) in members.iter().zip(went) {
                rates[at] = Some(known[to]);
            }
        }
        Ok(rates.into_iter().map(|rate| rate.expect("every sender is in one set")).collect())
    }

    /// Sets of senders that do not affect each other.
    fn apart<T>(&self, senders: &[(Sender, T)]) -> Vec<Vec<usize>> {
        let summed = senders.iter().filter(|(sender, _)| sender.aggregates).count();
        if summed * ROUND_TRIP as usize * PLENTY <= self.rig.pool as usize {
            components(senders)
        } else {
            vec![(0..senders.len()).collect()]
        }
    }

    /// Duration of each job's sum per iteration while these jobs run.
    fn sums_s(&self, jobs: &[(Sender, Key)]) -> Result<Vec<f64>, Error> {
        let mut sums = vec![f64::INFINITY; jobs.len()];
        for members in self.apart(jobs) {
            let own: Vec<(Sender, Key)> = members.iter().map(|&at| jobs[at].clone()).collect();
            let (own, went) = canonical(&own);
            let known = remembered(&self.sums, own, |own| Ok(self.play(own)?.into()))?;
            for (&at, to) in members.iter().zip(went) {
                sums[at] = known[to];
            }
        }
        Ok(sums)
    }

    fn play(&self, jobs: &[(Sender, Key)]) -> Result<Vec<f64>, Error> {
        let rhythms: Vec<Rhythm> = jobs
            .iter()
            .map(|&(_, (compute, alone))| Rhythm {
                compute_s: f64::from_bits(compute),
                alone_s: f64::from_bits(alone),
            })
            .collect();
        let mut known: HashMap<Vec<usize>, Vec<f64>> = HashMap::new();
        turns::sums_s(&rhythms, |sending| {
            if let Some(parts) = known.get(sending) {
                return Ok(parts.clone());
            }
            let senders: Vec<_> = sending.iter().map(|&at| (jobs[at].0.clone(), ())).collect();
            let parts: Vec<f64> = self.rates(&senders)?.iter().map(|rate| rate.part).collect();
            known.insert(sending.to_vec(), parts.clone());
            Ok(parts)
        })
    }
}

impl Sums for &Packets {
    type Error = Error;

    fn settle(&mut self, state: &mut State<'_>) -> Result<Vec<(JobId, f64)>, Error> {
        let running = state.running().values().filter_map(|running| {
            let sender = Sender::of(&running.plan, self.rig.pool > 0)?;
            let alone_s = self.rig.alone_s(&running.job);
            Some((running.job.id, (sender, (running.job.compute_s.to_bits(), alone_s.to_bits()))))
        });
        let (ids, jobs): (Vec<JobId>, Vec<_>) = running.unzip();
        Ok(ids.into_iter().zip(self.sums_s(&jobs)?).collect())
    }
}

/// Identical senders get their mean: their order has no meaning.
fn alike(senders: &[Sender], rates: &[Rate]) -> Vec<Rate> {
    let mean = |sender: &Sender| {
        let same: Vec<&Rate> =
            senders.iter().zip(rates).filter(|(one, _)| *one == sender).map(|(_, r)| r).collect();
        let mean = |of: fn(&Rate) -> f64| {
            same.iter().map(|rate| of(rate)).sum::<f64>() / same.len() as f64
        };
        Rate { part: mean(|r| r.part), error: mean(|r| r.error), summed: mean(|r| r.summed) }
    };
    senders.iter().map(mean).collect()
}

/// The cached value of a key, computed if missing. Two threads may compute it at once.
fn remembered<K: Eq + std::hash::Hash, V>(
    known: &Known<K, V>,
    key: Vec<K>,
    find: impl FnOnce(&[K]) -> Result<Arc<[V]>, Error>,
) -> Result<Arc<[V]>, Error> {
    let get = || known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(value) = get() {
        return Ok(value);
    }
    let value = find(&key)?;
    known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&value));
    Ok(value)
}
