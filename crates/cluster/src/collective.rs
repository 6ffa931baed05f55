//! All-reduce among the ranks of a job: transfers, cross-machine traffic and time (Titan §II-B,
//! §III-A and §V-B).
//!
//! Memory does not grow with the square of the number of ranks. A collective is a few [`Phase`]s, a
//! phase computes the receiver of each rank without a table, and phases with equal costs are one
//! phase that runs several times.

mod phase;
mod plan;

pub use phase::Phase;
pub use plan::path_gbps;

/// An algorithm by which the ranks of a job sum their gradients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Collective {
    /// Chunks of K/N pass around a ring twice: once to be summed and once to be distributed.
    Ring,
    /// Halves, quarters and so on are exchanged with ever nearer ranks, then in reverse (Titan
    /// figure 1a). Each rank beyond the largest power of two sends its gradients to a neighbour
    /// first and receives the sums from it at the end.
    #[default]
    HalvingDoubling,
    /// All gradients go up a binomial tree to rank 0, and the sums come down. Pipelining is not
    /// modelled; it would change the time, not the bytes.
    Tree,
}

impl Collective {
    /// All collectives.
    pub const ALL: [Self; 3] = [Self::Ring, Self::HalvingDoubling, Self::Tree];

    /// The phases with different costs, each with the number of times that it runs. A phase and its
    /// mirror image cost the same, because links are equally fast in both directions.
    pub fn phases(self, ranks: u32) -> impl Iterator<Item = Phase> + use<> {
        (0..phase::kinds(self, ranks)).map(move |kind| Phase::of(self, ranks, kind))
    }

    /// Every phase in the order of time, each running once: C<sup>t</sup><sub>n,n'</sub> for t =
    /// 1…T (Titan §III-A).
    pub fn schedule(self, ranks: u32) -> impl Iterator<Item = Phase> + use<> {
        let kinds = phase::kinds(self, ranks);
        let times = if self == Self::Ring && ranks > 1 { 2 * (ranks - 1) } else { 2 * kinds };
        (0..times).map(move |time| {
            let (kind, mirrored) = match self {
                Self::Ring => (0, false),
                _ if time < kinds => (time, false),
                _ => (times - 1 - time, true),
            };
            let mut phase = Phase::of(self, ranks, kind);
            phase.times = 1;
            if mirrored { phase.mirrored() } else { phase }
        })
    }

    /// All ranks, ordered so that ranks that exchange the most are adjacent. If machines get ranks
    /// in this order, the largest exchanges stay within machines.
    ///
    /// For halving-doubling this is the bit-reversed order, because the most distant ranks exchange
    /// the largest parts. A rank outside the power of two follows the rank that represents it.
    #[must_use]
    pub fn locality_order(self, ranks: u32) -> Vec<u32> {
        if self != Self::HalvingDoubling || ranks < 2 {
            return (0..ranks).collect();
        }
        let core = phase::Core::of(ranks);
        let mut order = Vec::with_capacity(ranks as usize);
        for index in 0..core.size() {
            let place = index.reverse_bits() >> (u32::BITS - core.bits);
            let rank = core.rank(place);
            order.push(rank);
            order.extend(core.folded_into(rank));
        }
        order
    }
}

#[cfg(test)]
mod tests;
