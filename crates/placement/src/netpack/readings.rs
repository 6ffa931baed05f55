//! Where the paper can be read in more than one way.

/// How algorithm 2 and equation 1 are read; `docs/placement/netpack.md` says why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Readings {
    /// Line 4.
    pub fits: Fits,
    /// How many more GPUs than it needs a job may be given before they are taken back.
    pub surplus: Surplus,
    /// Where the parameter server adds a flow of its own.
    pub epsilon: Epsilon,
    /// The last term of equation 1.
    pub hot_spot: HotSpot,
    /// What an oversubscribed network changes.
    pub oversubscribed: Oversubscribed,
}

impl Readings {
    /// As close to the letter of the paper as it can be run.
    #[must_use]
    pub const fn printed() -> Self {
        Self {
            fits: Fits::WithRoom,
            surplus: Surplus::Any,
            epsilon: Epsilon::Elsewhere,
            hot_spot: HotSpot::Subtracted,
            oversubscribed: Oversubscribed::Penalty,
        }
    }
}

/// Which servers a whole job fits on (algorithm 2, line 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fits {
    /// Those with as many free GPUs as it wants.
    #[default]
    Exactly,
    /// Those with more, as printed: a job of four GPUs never fits on a server of four.
    WithRoom,
}

/// How many more GPUs than it needs a job may be given before they are taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Surplus {
    /// Any number up to a server's GPUs, as printed. Servers count then whose GPUs are all taken back
    /// at once.
    #[default]
    Any,
    /// As few as whole servers allow, for each bound on flows: more only if there is no exact fit.
    Least,
}

/// Where `ε` of step 3 is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Epsilon {
    /// On servers with a worker, whose link the job crosses twice, as in constraint 3 of table 3.
    #[default]
    WithWorker,
    /// On servers without one, as printed.
    Elsewhere,
}

/// The last term of equation 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HotSpot {
    /// `+ C/(f_max+1)`: what the job gets where it meets most flows, and less the more there are.
    #[default]
    Share,
    /// `− C/(f_max+1)`, the sign as printed: more flows are better.
    Subtracted,
}

/// What an oversubscribed network changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Oversubscribed {
    /// Plans within a rack come first; across racks, what the job gets of the busiest uplink counts
    /// if that is less than what it gets of the busiest server.
    #[default]
    RacksFirst,
    /// The penalty alone.
    Penalty,
}
