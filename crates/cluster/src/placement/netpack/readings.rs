//! Interpretations of ambiguous parts of the paper.

use crate::placement::sharing::Sharing;

/// Interpretation of algorithm 2 and equation 1; `docs/evaluation/netpack.md` gives the reasons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Readings {
    /// Line 4.
    pub fits: Fits,
    /// The surplus of GPUs that a job may be given before they are taken back.
    pub surplus: Surplus,
    /// Where the parameter server adds its own flow.
    pub epsilon: Epsilon,
    /// The last term of equation 1.
    pub hot_spot: HotSpot,
    /// The effect of oversubscription.
    pub oversubscribed: Oversubscribed,
    /// Whether step 3 may put the parameter server beside a worker.
    pub sharing: Sharing,
    /// Whether parameter servers stay where step 3 puts them.
    pub servers: Servers,
    /// How running jobs count.
    pub duty: Duty,
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
            sharing: Sharing::Allowed,
            servers: Servers::Stay,
            duty: Duty::Always,
        }
    }
}

/// The servers on which a whole job fits (algorithm 2, line 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fits {
    /// Those with at least as many free GPUs as requested.
    #[default]
    Exactly,
    /// Those with more, as printed: a job of four GPUs never fits on a server of four.
    WithRoom,
}

/// The surplus of GPUs that a job may be given before they are taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Surplus {
    /// Any number up to a server's GPUs, as printed. The worth then includes servers whose GPUs are
    /// all taken back at once.
    #[default]
    Any,
    /// The minimum for whole servers, for each bound on flows: a surplus only if there is no exact
    /// fit.
    Least,
}

/// Where `ε` of step 3 is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Epsilon {
    /// On servers with a worker, whose link the job crosses twice, as in constraint 3 of table 3.
    #[default]
    WithWorker,
    /// On servers without a worker, as printed.
    Elsewhere,
}

/// The last term of equation 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HotSpot {
    /// `+ C/(f_max+1)`: the job's share where it meets the most flows, which decreases with the
    /// number of flows.
    #[default]
    Share,
    /// `− C/(f_max+1)`, the sign as printed: more flows are better.
    Subtracted,
}

/// The effect of oversubscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Oversubscribed {
    /// Plans within a rack come first. For plans across racks, the share of the busiest uplink
    /// counts if it is smaller than that of the busiest server.
    #[default]
    RacksFirst,
    /// Only the penalty.
    Penalty,
}

/// Whether parameter servers stay where step 3 puts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Servers {
    /// They stay, as in the paper.
    #[default]
    Stay,
    /// Once all workers of a batch are placed, each moves to the server where the sum of `d/v` over
    /// all running jobs is smallest. This is ours, not the paper's. It computes a steady state for
    /// each job and server.
    Reviewed,
}

/// How the flows of running jobs count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Duty {
    /// As if all jobs sent all the time, which is the paper's steady state.
    #[default]
    Always,
    /// By the fraction of the time for which a job sends: an iteration computes first.
    Cycles,
}
