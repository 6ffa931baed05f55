//! What was decided for a job. It is kept in Slurm, in the job's admin comment, which only Slurm's
//! administrators can change: so the placer itself keeps nothing.

use std::fmt;
use std::str::FromStr;

use crate::wish::WORD;

/// Where a job was placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Its nodes, each with its number of GPUs.
    pub on: Vec<(String, u32)>,
    /// The node of its parameter server; `None` for a job on one node.
    pub ps: Option<String>,
    /// Whether switches aggregate for it; otherwise its parameter server alone.
    pub in_network: bool,
    /// When it was placed, in seconds since 1970; `None` if Slurm placed it itself.
    pub at_s: Option<u64>,
    /// The run that the switches serve, once the job is admitted.
    pub run: Option<u32>,
}

/// The text is not a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is not a decision of `tributary place slurm`")]
pub struct NotADecision;

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on: Vec<String> = self.on.iter().map(|(node, gpus)| format!("{node}:{gpus}")).collect();
        write!(f, "{WORD} on={}", on.join(","))?;
        if let Some(ps) = &self.ps {
            write!(f, " ps={ps} sum={}", if self.in_network { "network" } else { "server" })?;
        }
        if let Some(at_s) = self.at_s {
            write!(f, " at={at_s}")?;
        }
        match self.run {
            Some(run) => write!(f, " run={run}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Decision {
    type Err = NotADecision;

    fn from_str(text: &str) -> Result<Self, NotADecision> {
        let mut words = text.split_whitespace();
        if words.next() != Some(WORD) {
            return Err(NotADecision);
        }
        let mut decision =
            Self { on: Vec::new(), ps: None, in_network: true, at_s: None, run: None };
        for word in words {
            match word.split_once('=').ok_or(NotADecision)? {
                ("on", nodes) => {
                    decision.on = nodes.split(',').map(share).collect::<Result<_, _>>()?
                }
                ("ps", node) => decision.ps = Some(node.to_owned()),
                ("sum", place) => decision.in_network = place == "network",
                ("at", seconds) => {
                    decision.at_s = Some(seconds.parse().map_err(|_| NotADecision)?);
                }
                ("run", epoch) => decision.run = Some(epoch.parse().map_err(|_| NotADecision)?),
                _ => return Err(NotADecision),
            }
        }
        if decision.on.is_empty() { Err(NotADecision) } else { Ok(decision) }
    }
}

fn share(text: &str) -> Result<(String, u32), NotADecision> {
    let (node, gpus) = text.rsplit_once(':').ok_or(NotADecision)?;
    Ok((node.to_owned(), gpus.parse().map_err(|_| NotADecision)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_decision_is_a_short_text() {
        let decision = Decision {
            on: vec![("n1".into(), 2), ("n3".into(), 1)],
            ps: Some("n1".into()),
            in_network: true,
            at_s: Some(9),
            run: Some(7),
        };
        assert_eq!(decision.to_string(), "tributary on=n1:2,n3:1 ps=n1 sum=network at=9 run=7");
        for other in ["", "tributary", "tributary on=n1", "tributary on=n1:2 x=1", "note"] {
            assert_eq!(other.parse::<Decision>(), Err(NotADecision), "{other}");
        }
    }

    proptest! {
        #[test]
        fn decisions_are_read_back(
            on in prop::collection::vec(("[a-z0-9-]{1,8}", 0_u32..9), 1..6),
            has_ps: bool,
            in_network: bool,
            at_s in prop::option::of(any::<u64>()),
            run in prop::option::of(1_u32..),
        ) {
            let ps = has_ps.then(|| on[0].0.clone());
            // It is not written where there is no parameter server.
            let in_network = in_network || !has_ps;
            let decision = Decision { on, ps, in_network, at_s, run };
            prop_assert_eq!(decision.to_string().parse(), Ok(decision));
        }
    }
}
