//! Phases: who sends to whom at the same time.

use super::Collective;

/// A phase of a collective: every rank sends to at most one rank and receives from at most one, all
/// of them the same amount, at the same time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Phase {
    /// What a sender sends, as a share of all gradients of a rank.
    pub share: f64,
    /// How often it runs in one all-reduce.
    pub times: u32,
    ranks: u32,
    pairing: Pairing,
}

/// Who sends to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pairing {
    /// To the next rank of the ring.
    Next,
    /// With the rank whose place in the halving differs in this bit.
    Across { bit: u32, core: Core },
    /// From a rank without a place in the halving to the one that stands for it; or back.
    Fold { core: Core, back: bool },
    /// From the ranks whose lowest set bit this is to the rank without that bit; or back.
    Tree { bit: u32, back: bool },
}

/// The largest power of two of ranks, which halve and double among themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Core {
    /// Bits of a place.
    pub(super) bits: u32,
    /// Ranks beyond; each of the first `2 · extra` ranks that is even hands its part to the next.
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

    /// The rank that has a place.
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

    /// The rank that another one stands for.
    pub(super) fn folded_into(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra && rank % 2 == 1).then(|| rank - 1)
    }
}

/// Phases of a collective that differ in cost.
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
    /// A phase by its number below [`kinds`], in the order of the first half of the schedule.
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

    /// The same phase with everything sent the other way.
    pub(super) const fn mirrored(self) -> Self {
        let pairing = match self.pairing {
            Pairing::Fold { core, back } => Pairing::Fold { core, back: !back },
            Pairing::Tree { bit, back } => Pairing::Tree { bit, back: !back },
            same @ (Pairing::Next | Pairing::Across { .. }) => same,
        };
        Self { pairing, ..self }
    }

    /// Whom a rank sends to.
    #[must_use]
    pub fn sends_to(&self, rank: u32) -> Option<u32> {
        match self.pairing {
            Pairing::Next => Some((rank + 1) % self.ranks),
            _ => self.partner(rank, false),
        }
    }

    /// Whom a rank receives from.
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

    /// Whether those who send receive as much from the same rank.
    #[must_use]
    pub const fn exchanges(&self) -> bool {
        match self.pairing {
            Pairing::Next => self.ranks == 2,
            Pairing::Across { .. } => true,
            Pairing::Fold { .. } | Pairing::Tree { .. } => false,
        }
    }

    /// Everything that is sent: from whom to whom.
    pub fn transfers(self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.ranks).filter_map(move |rank| self.sends_to(rank).map(|to| (rank, to)))
    }

    /// The pairs that communicate. An exchange is one pair, as the arrows of Titan's figure 1 are.
    pub fn pairs(self) -> impl Iterator<Item = (u32, u32)> {
        self.transfers().filter(move |&(from, to)| from < to || !self.exchanges())
    }
}
