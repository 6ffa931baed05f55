//! Phases: transfers that run at the same time.

use super::Collective;

/// A phase of a collective: every rank sends to at most one rank and receives from at most one, all
/// the same amount, at the same time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Phase {
    /// The amount that each sender sends, as a share of all gradients of a rank.
    pub share: f64,
    /// Number of times that it runs in one all-reduce.
    pub times: u32,
    ranks: u32,
    pairing: Pairing,
}

/// The pairs of sender and receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pairing {
    /// To the next rank of the ring.
    Next,
    /// With the rank whose place differs in this bit.
    Across { bit: u32, core: Core },
    /// From a rank without a place to the rank that represents it, or back.
    Fold { core: Core, back: bool },
    /// From the ranks with this lowest set bit to the ranks without it, or back.
    Tree { bit: u32, back: bool },
}

/// The largest power of two of ranks, which perform the halving and doubling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Core {
    /// Number of bits of a place.
    pub(super) bits: u32,
    /// Number of ranks beyond the power of two. Each even rank among the first `2 · extra` ranks
    /// sends its part to the next rank.
    extra: u32,
}

impl Core {
    pub(super) const fn of(ranks: u32) -> Self {
        let bits = ranks.ilog2();
        Self { bits, extra: ranks - (1 << bits) }
    }

    pub(super) const fn size(self) -> u32 {
        1 << self.bits
    }

    /// The rank at a place.
    pub(super) const fn rank(self, place: u32) -> u32 {
        if place < self.extra { 2 * place + 1 } else { place + self.extra }
    }

    /// The place of a rank, if it has one.
    const fn place(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.extra {
            Some(rank - self.extra)
        } else if rank % 2 == 1 {
            Some(rank / 2)
        } else {
            None
        }
    }

    /// The rank that `rank` represents.
    pub(super) fn folded_into(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra && rank % 2 == 1).then(|| rank - 1)
    }
}

/// Number of phases of a collective with different costs.
pub(super) const fn kinds(collective: Collective, ranks: u32) -> u32 {
    if ranks < 2 {
        return 0;
    }
    match collective {
        Collective::Ring => 1,
        Collective::HalvingDoubling => ranks.ilog2() + !ranks.is_power_of_two() as u32,
        Collective::Tree => ranks.next_power_of_two().ilog2(),
    }
}

impl Phase {
    /// A phase by its number, less than [`kinds`], in the order of the first half of the schedule.
    pub(super) fn of(collective: Collective, ranks: u32, kind: u32) -> Self {
        match collective {
            Collective::Ring => Self {
                share: 1.0 / f64::from(ranks),
                times: 2 * (ranks - 1),
                ranks,
                pairing: Pairing::Next,
            },
            Collective::HalvingDoubling => Self::of_halving(ranks, kind),
            Collective::Tree => Self {
                share: 1.0,
                times: 2,
                ranks,
                pairing: Pairing::Tree { bit: kind, back: false },
            },
        }
    }

    fn of_halving(ranks: u32, kind: u32) -> Self {
        let core = Core::of(ranks);
        let folds = u32::from(core.extra > 0);
        if kind < folds {
            let pairing = Pairing::Fold { core, back: false };
            return Self { share: 1.0, times: 2, ranks, pairing };
        }
        let halved = kind - folds + 1;
        let pairing = Pairing::Across { bit: core.bits - halved, core };
        Self { share: f64::from(1_u32 << halved).recip(), times: 2, ranks, pairing }
    }

    /// The same phase with all transfers reversed.
    pub(super) const fn mirrored(self) -> Self {
        let pairing = match self.pairing {
            Pairing::Fold { core, back } => Pairing::Fold { core, back: !back },
            Pairing::Tree { bit, back } => Pairing::Tree { bit, back: !back },
            same @ (Pairing::Next | Pairing::Across { .. }) => same,
        };
        Self { pairing, ..self }
    }

    /// The rank to which `rank` sends.
    #[must_use]
    pub fn sends_to(&self, rank: u32) -> Option<u32> {
        match self.pairing {
            Pairing::Next => Some((rank + 1) % self.ranks),
            _ => self.partner(rank, false),
        }
    }

    /// The rank from which `rank` receives.
    #[must_use]
    pub fn receives_from(&self, rank: u32) -> Option<u32> {
        match self.pairing {
            Pairing::Next => Some((rank + self.ranks - 1) % self.ranks),
            _ => self.partner(rank, true),
        }
    }

    fn partner(&self, rank: u32, receives: bool) -> Option<u32> {
        match self.pairing {
            Pairing::Next => None,
            Pairing::Across { bit, core } => {
                core.place(rank).map(|place| core.rank(place ^ (1 << bit)))
            }
            Pairing::Fold { core, back } => {
                if rank >= 2 * core.extra {
                    None
                } else if back == receives {
                    rank.is_multiple_of(2).then(|| rank + 1)
                } else {
                    (!rank.is_multiple_of(2)).then(|| rank - 1)
                }
            }
            Pairing::Tree { bit, back } => {
                if back == receives {
                    (rank > 0 && rank.trailing_zeros() == bit).then(|| rank - (1 << bit))
                } else {
                    let child = rank + (1 << bit);
                    (rank.is_multiple_of(2 << bit) && child < self.ranks).then_some(child)
                }
            }
        }
    }

    /// Whether senders receive the same amount from the same rank.
    #[must_use]
    pub const fn exchanges(&self) -> bool {
        match self.pairing {
            Pairing::Next => self.ranks == 2,
            Pairing::Across { .. } => true,
            Pairing::Fold { .. } | Pairing::Tree { .. } => false,
        }
    }

    /// All transfers: from which rank to which rank.
    pub fn transfers(self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.ranks).filter_map(move |rank| self.sends_to(rank).map(|to| (rank, to)))
    }

    /// The pairs that communicate. An exchange is one pair, like the arrows of Titan's figure 1.
    pub fn pairs(self) -> impl Iterator<Item = (u32, u32)> {
        self.transfers().filter(move |&(from, to)| from < to || !self.exchanges())
    }
}
