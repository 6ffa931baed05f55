//! All placements of a job, for small cases.

use crate::{Cluster, Plan, ServerIndex};

/// A placement of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// Number of GPUs on each server that has some.
    pub(crate) shares: Vec<(ServerIndex, u32)>,
    /// The server of the parameter server; `None` for a job on one server.
    pub(crate) ps: Option<ServerIndex>,
}

impl Way {
    /// The plan, with all switches aggregating that have something to sum.
    pub(crate) fn plan(&self, cluster: &Cluster) -> Plan {
        match self.ps {
            Some(ps) => Plan::spread(cluster, &self.shares, ps),
            None => Plan::on_one(self.shares[0].0, self.shares[0].1),
        }
    }
}

/// All placements of one job on servers with these numbers of free GPUs.
pub(crate) fn ways(gpus_of: &[u32], gpus: u32) -> Vec<Way> {
    let servers = (0..gpus_of.len() as u32).map(ServerIndex);
    splits(gpus_of, gpus)
        .into_iter()
        .flat_map(|split| {
            let shares: Vec<_> =
                servers.clone().zip(split).filter(|(_, share)| *share > 0).collect();
            let places: Vec<_> =
                if shares.len() == 1 { vec![None] } else { servers.clone().map(Some).collect() };
            places.into_iter().map(move |ps| Way { shares: shares.clone(), ps })
        })
        .collect()
}

/// All ways to write `gpus` as a sum with one term per server.
fn splits(gpus_of: &[u32], gpus: u32) -> Vec<Vec<u32>> {
    match gpus_of {
        [] if gpus == 0 => vec![Vec::new()],
        [] => Vec::new(),
        [rest @ .., last] => (0..=gpus.min(*last))
            .flat_map(|here| {
                splits(rest, gpus - here).into_iter().map(move |mut split| {
                    split.push(here);
                    split
                })
            })
            .collect(),
    }
}

/// At least the number of [`ways`], without listing them.
pub(crate) fn count(gpus_of: &[u32], gpus: u32) -> u64 {
    // By number of GPUs: the splits over the servers so far.
    let mut splits = vec![0_u64; gpus as usize + 1];
    splits[0] = 1;
    for &free in gpus_of {
        if splits[gpus as usize] == u64::MAX {
            break;
        }
        for gpus in (0..splits.len()).rev() {
            let fewer = gpus.saturating_sub(free as usize);
            splits[gpus] =
                splits[fewer..=gpus].iter().fold(0, |sum, ways| ways.saturating_add(sum));
        }
    }
    splits[gpus as usize].saturating_mul(gpus_of.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_splits_are_enumerated() {
        assert_eq!(splits(&[2, 1, 2], 2).len(), 5, "200 110 101 011 002");
        assert!(splits(&[2, 1], 4).is_empty());
        assert_eq!(ways(&[2, 1, 2], 2).len(), 2 + 3 * 3);
    }

    #[test]
    fn splits_are_counted() {
        for (gpus_of, gpus) in [(&[2, 1, 2][..], 2), (&[2, 1], 4), (&[4, 4, 4, 4], 9)] {
            let each = splits(gpus_of, gpus).len() as u64;
            assert_eq!(count(gpus_of, gpus), each * gpus_of.len() as u64);
        }
        assert_eq!(count(&[8; 10_000], 4_000), u64::MAX);
    }
}
