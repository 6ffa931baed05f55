//! What can be exchanged in a policy, each alone: the queue, the place of parameter servers, and
//! whether plans within one rack come first. The fourth part, which servers get a job's workers, is
//! the policy itself.
//!
//! A comparison of two policies that differ in several of these does not say which of them decides.

use std::fmt;

use crate::placement::netpack::subset::subset;
use crate::placement::sharing::Sharing;
use crate::{Pending, Policy, Round, ServerIndex, State, SteadyNetwork, policy::Serve};

use crate::placement::regions;
use crate::plan::Plan;

/// Which waiting jobs a policy tries, and in which order. One that does not fit lets those behind
/// it pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Queue {
    /// All jobs, in the order of submission.
    #[default]
    Fifo,
    /// The jobs that NetPack would place (NetPack §5.2, step 1).
    Knapsack,
    /// All jobs, that with the least time of computing first. It takes the trace's durations as known.
    Shortest,
}

impl Queue {
    /// Indices of the jobs to try, in order.
    pub(crate) fn of(self, waiting: &[Pending], free_gpus: u32) -> Vec<usize> {
        match self {
            Self::Fifo => (0..waiting.len()).collect(),
            Self::Knapsack => subset(waiting, free_gpus),
            Self::Shortest => {
                let mut all: Vec<usize> = (0..waiting.len()).collect();
                let time_s = |at: usize| waiting[at].job.ideal_s();
                all.sort_by(|&a, &b| time_s(a).total_cmp(&time_s(b)).then(a.cmp(&b)));
                all
            }
        }
    }
}

/// How parameter servers are spread over the servers that a rule of [`Sharing`] leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// To the server with the fewest parameter servers, then with the fewest flows.
    Count,
    /// To the server with the fewest flows, then with the fewest parameter servers.
    Flows,
}

/// Whether a plan within one rack is better than any other, where uplinks are slower than the links
/// below them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Racks {
    /// Only by the policy's own criteria.
    Any,
    /// First.
    First,
}

/// Exchanged rules; those that are `None` are the policy's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// Which jobs, in which order.
    pub queue: Option<Queue>,
    /// Whether a parameter server may be beside a worker of its job.
    pub sharing: Option<Sharing>,
    /// On which of the allowed servers it is.
    pub spread: Option<Spread>,
    /// Whether plans within one rack come first.
    pub racks: Option<Racks>,
}

/// A rule by its name.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Queue(Queue),
    Sharing(Sharing),
    Spread(Spread),
    Racks(Racks),
}

const RULES: [(&str, Rule); 10] = [
    ("fifo", Rule::Queue(Queue::Fifo)),
    ("knapsack", Rule::Queue(Queue::Knapsack)),
    ("shortest", Rule::Queue(Queue::Shortest)),
    ("beside", Rule::Sharing(Sharing::Required)),
    ("apart", Rule::Sharing(Sharing::Forbidden)),
    ("shared", Rule::Sharing(Sharing::Allowed)),
    ("by-count", Rule::Spread(Spread::Count)),
    ("by-flows", Rule::Spread(Spread::Flows)),
    ("any-racks", Rule::Racks(Racks::Any)),
    ("racks-first", Rule::Racks(Racks::First)),
];

impl Rules {
    /// Rules by their names, with colons between them, such as `knapsack:apart`.
    ///
    /// # Errors
    ///
    /// One line, if a name is unknown, or if two of them set the same part.
    pub fn parse(names: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        for name in names.split(':') {
            let Some((_, rule)) = RULES.iter().find(|(known, _)| *known == name) else {
                let known = RULES.map(|(name, _)| name).join(", ");
                return Err(format!("there is no rule `{name}`; there are {known}"));
            };
            let set_before = match *rule {
                Rule::Queue(queue) => rules.queue.replace(queue).is_some(),
                Rule::Sharing(sharing) => rules.sharing.replace(sharing).is_some(),
                Rule::Spread(spread) => rules.spread.replace(spread).is_some(),
                Rule::Racks(racks) => rules.racks.replace(racks).is_some(),
            };
            if set_before {
                return Err(format!("`{name}` is the second rule of its kind; write one of them"));
            }
        }
        Ok(rules)
    }

    /// These rules, and those of `others` where there is none here.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            queue: self.queue.or(others.queue),
            sharing: self.sharing.or(others.sharing),
            spread: self.spread.or(others.spread),
            racks: self.racks.or(others.racks),
        }
    }
}

/// As after the name of a policy: with a colon before each.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = |rule: &Rule| match *rule {
            Rule::Queue(queue) => self.queue == Some(queue),
            Rule::Sharing(sharing) => self.sharing == Some(sharing),
            Rule::Spread(spread) => self.spread == Some(spread),
            Rule::Racks(racks) => self.racks == Some(racks),
        };
        let mut set = RULES.iter().filter(|(_, rule)| is_set(rule));
        set.try_for_each(|(name, _)| write!(f, ":{name}"))
    }
}

/// A policy with another queue, or with parameter servers spread by a rule.
pub(crate) struct Ruled {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) queue: Option<Queue>,
    pub(crate) servers: Option<Servers>,
}

impl Policy for Ruled {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        if let Some(servers) = self.servers {
            round.serve_by(Box::new(servers));
        }
        match self.queue {
            None => self.policy.place(round, waiting),
            Some(queue) => {
                let chosen = queue.of(waiting, round.free_total());
                let chosen: Vec<Pending> =
                    chosen.into_iter().map(|at| waiting[at].clone()).collect();
                self.policy.place(round, &chosen);
            }
        }
    }
}

/// Where parameter servers go, whatever the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Servers {
    pub(crate) sharing: Sharing,
    pub(crate) spread: Spread,
}

impl Serve for Servers {
    /// In the region of the workers; a job within one rack keeps its parameter server there, since a
    /// rule of servers is not to undo one of racks.
    fn server(&self, state: &State<'_>, network: &SteadyNetwork, plan: &Plan) -> ServerIndex {
        let cluster = state.cluster();
        let workers = plan.workers();
        let rack = |server: ServerIndex| cluster.server(server).rack;
        let home = rack(workers[0].0);
        let within = |region: &regions::Region| {
            region.racks.contains(&home)
                && workers.iter().all(|&(at, _)| region.racks.contains(&rack(at)))
        };
        let regions = regions::racks(cluster).into_iter().chain(regions::of(cluster));
        let region = regions.into_iter().find(within);
        let key = |server: ServerIndex| {
            let (count, flows) = (state.parameter_servers(server), network.flows(server));
            match self.spread {
                Spread::Count => (count, flows),
                Spread::Flows => (flows, count),
            }
        };
        let servers = region.iter().flat_map(|region| region.servers(cluster));
        self.sharing.least(servers, &workers, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_by_their_names() {
        let rules = Rules::parse("racks-first:fifo:by-flows:apart").unwrap();
        let all = Rules {
            queue: Some(Queue::Fifo),
            sharing: Some(Sharing::Forbidden),
            spread: Some(Spread::Flows),
            racks: Some(Racks::First),
        };
        assert_eq!(rules, all);
        assert_eq!(all.to_string(), ":fifo:apart:by-flows:racks-first");
        assert_eq!(Rules::default().to_string(), "");
        let twice = Rules::parse("fifo:shared:knapsack").unwrap_err();
        assert_eq!(twice, "`knapsack` is the second rule of its kind; write one of them");
        let unknown = Rules::parse("fifo:").unwrap_err();
        assert!(unknown.starts_with("there is no rule ``; there are fifo, knapsack"), "{unknown}");
        let own = Rules::parse("shortest").unwrap().or(all);
        assert_eq!(own, Rules { queue: Some(Queue::Shortest), ..all });
    }
}
