//! Flow-balance: prefers servers with fewer flows (NetPack §6.1).

use crate::ServerIndex;

use crate::placement::ranked::{Preference, Ranked, View};

/// Flow-balance.
pub type FlowBalance = Ranked<FewerFlows>;

/// Fewest flows first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FewerFlows;

impl Preference for FewerFlows {
    const NAME: &'static str = "flow-balance";

    type Key = u32;

    fn key(view: &View<'_>, server: ServerIndex) -> u32 {
        view.network.flows(server)
    }

    /// A parameter server adds flows.
    const COUNT_FIRST: bool = false;
}
