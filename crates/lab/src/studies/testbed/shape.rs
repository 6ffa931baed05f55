//! The set of servers that jobs use, independent of their numbers.

use std::collections::BTreeSet;

use tributary_cluster::Plan;

/// The maximum number of servers of which every order is tried.
const ORDERED: usize = 6;

/// The servers of a job's sender.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Sender {
    /// Servers of its workers, in order.
    pub(super) workers: Vec<u32>,
    /// Server of its parameter server.
    pub(super) ps: u32,
    /// Whether the switch aggregates for it.
    pub(super) aggregates: bool,
}

impl Sender {
    /// `None` for a plan that sends nothing.
    pub(super) fn of(plan: &Plan, memory: bool) -> Option<Self> {
        let ps = plan.ps.filter(|_| plan.is_distributed())?.0;
        let workers = plan.workers().into_iter().map(|(server, _)| server.0).collect();
        Some(Self { workers, ps, aggregates: memory && !plan.aggregating.is_empty() })
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = u32> {
        self.workers.iter().copied().chain([self.ps])
    }

    fn renamed(&self, names: &[(u32, u32)]) -> Self {
        let name = |server| names.iter().find(|(old, _)| *old == server).map_or(server, |n| n.1);
        let mut workers: Vec<u32> = self.workers.iter().map(|&server| name(server)).collect();
        workers.sort_unstable();
        Self { workers, ps: name(self.ps), aggregates: self.aggregates }
    }
}

/// Senders in canonical order, and the new index of each given one.
type Ordered<T> = (Vec<(Sender, T)>, Vec<usize>);

/// Senders with distinguishing data, with servers renamed so that the result comes first in order;
/// and the new index of each given one. Sets that differ only in server names have the same result.
pub(super) fn canonical<T: Ord + Clone>(senders: &[(Sender, T)]) -> Ordered<T> {
    let servers: BTreeSet<u32> = senders.iter().flat_map(|(sender, _)| sender.servers()).collect();
    let servers: Vec<u32> = servers.into_iter().collect();
    let mut best: Option<Ordered<T>> = None;
    let mut order: Vec<u32> = (0..servers.len() as u32).collect();
    loop {
        let names: Vec<(u32, u32)> = servers.iter().copied().zip(order.iter().copied()).collect();
        let renamed: Vec<(Sender, T)> =
            senders.iter().map(|(sender, tag)| (sender.renamed(&names), tag.clone())).collect();
        let mut places: Vec<usize> = (0..renamed.len()).collect();
        places.sort_by(|&a, &b| renamed[a].cmp(&renamed[b]));
        let sorted: Vec<(Sender, T)> = places.iter().map(|&at| renamed[at].clone()).collect();
        if best.as_ref().is_none_or(|(best, _)| sorted < *best) {
            let mut went = vec![0; places.len()];
            for (to, &from) in places.iter().enumerate() {
                went[from] = to;
            }
            best = Some((sorted, went));
        }
        if servers.len() > ORDERED || !advance(&mut order) {
            return best.expect("one order was tried");
        }
    }
}

/// The next permutation in lexicographic order; false after the last.
fn advance(order: &mut [u32]) -> bool {
    let Some(pivot) = order.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let greater =
        order.iter().rposition(|&number| number > order[pivot]).expect("the one behind it");
    order.swap(pivot, greater);
    order[pivot + 1..].reverse();
    true
}

/// Indices of senders that share servers, directly or through others.
pub(super) fn components<T>(senders: &[(Sender, T)]) -> Vec<Vec<usize>> {
    let mut components: Vec<(BTreeSet<u32>, Vec<usize>)> = Vec::new();
    for (at, (sender, _)) in senders.iter().enumerate() {
        let mut servers: BTreeSet<u32> = sender.servers().collect();
        let mut members = vec![at];
        components.retain_mut(|(others, its)| {
            let apart = servers.is_disjoint(others);
            if !apart {
                servers.append(others);
                members.append(its);
            }
            apart
        });
        members.sort_unstable();
        components.push((servers, members));
    }
    let mut members: Vec<Vec<usize>> = components.into_iter().map(|(_, members)| members).collect();
    members.sort();
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(workers: &[u32], ps: u32) -> (Sender, ()) {
        (Sender { workers: workers.to_vec(), ps, aggregates: true }, ())
    }

    #[test]
    fn names_of_servers_do_not_matter() {
        let one = canonical(&[sender(&[0, 3], 4), sender(&[1, 3, 4], 1)]);
        let other = canonical(&[sender(&[0, 2, 4], 4), sender(&[1, 2], 0)]);
        assert_eq!(one.0, other.0);
        assert_eq!(one.1.iter().rev().collect::<Vec<_>>(), other.1.iter().collect::<Vec<_>>());
        let different = canonical(&[sender(&[0, 3], 2), sender(&[1, 3, 4], 1)]);
        assert_ne!(one.0, different.0);
    }

    #[test]
    fn distinguishing_data_stays_with_its_job() {
        let tagged = |workers: &[u32], tag| (sender(workers, 4).0, tag);
        let (all, went) = canonical(&[tagged(&[2, 3], 'b'), tagged(&[1, 2], 'a')]);
        assert_eq!((all[went[0]].1, all[went[1]].1), ('b', 'a'));
    }

    #[test]
    fn jobs_on_different_servers_are_separate_components() {
        let all = [sender(&[0, 1], 0), sender(&[3, 4], 5), sender(&[2, 5], 6), sender(&[7, 8], 7)];
        assert_eq!(components(&all), [vec![0], vec![1, 2], vec![3]]);
    }
}
