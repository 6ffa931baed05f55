//! All-reduce among the ranks of a job: who sends how much to whom, what of it crosses machines, and
//! how long that takes (Titan §II-B, §III-A and §V-B).
//!
//! Nothing here grows with the square of the ranks. A collective is a few [`Phase`]s, a phase knows
//! whom a rank sends to without a table, and phases that cost the same are one phase that runs
//! several times.

mod phase;
mod plan;

pub use phase::Phase;
pub use plan::path_gbps;

/// How the ranks of a job sum their gradients among themselves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Collective {
    /// Chunks of K/N go round a ring, once to be summed and once to be handed out.
    Ring,
    /// Halves, quarters… are exchanged with ranks ever nearer, then the other way round
    /// (Titan figure 1a). Ranks beyond the largest power of two hand their gradients to a neighbour
    /// first and get the sums from it at the end.
    #[default]
    HalvingDoubling,
    /// All gradients go up a binomial tree to rank 0, the sums come down. Not pipelined: that would
    /// change the time, not the bytes.
    Tree,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ring, Self::HalvingDoubling, Self::Tree];

    /// What users call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::HalvingDoubling => "halving-doubling",
            Self::Tree => "tree",
        }
    }

    /// The one that users call so.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|collective| collective.name() == name)
    }

    /// The phases that differ in cost, each with how often it runs. A phase and its mirror image
    /// cost the same, since links are as fast in both directions.
    pub fn phases(self, ranks: u32) -> impl Iterator<Item = Phase> + use<> {
        (0..phase::kinds(self, ranks)).map(move |kind| Phase::of(self, ranks, kind))
    }

    /// Every phase in the order of time, each running once: C<sup>t</sup><sub>n,n'</sub> for
    /// t = 1…T (Titan §III-A).
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

    /// All ranks, in an order in which those that exchange most stand together: dealt out to machines
    /// in this order, the heavy exchanges stay inside.
    ///
    /// For halving-doubling that is the order of the reversed bits, since the farthest ranks exchange
    /// the largest halves; a rank without a place in the halving follows the one that stands for it.
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
