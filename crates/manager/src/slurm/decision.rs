//! What was decided for a job. It is kept in Slurm, in the job's admin comment, which only Slurm's
//! administrators can change: so the placer itself keeps nothing.

use std::fmt;
use std::str::FromStr;

use crate::slurm::wish::WORD;

/// Where a job is summed, in the text of a decision.
const NETWORK: &str = "network";
const SERVER: &str = "server";
const SWITCHES: &str = "switches:";

/// Where a job was placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Its nodes, each with its number of GPUs.
    pub on: Vec<(String, u32)>,
    /// The node of its parameter server; `None` for a job that needs none, or if the controller chooses one.
    pub ps: Option<String>,
    /// The switches that aggregate for it; `None` for all that have something to add.
    pub adding: Option<Vec<String>>,
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
            write!(f, " ps={ps}")?;
        }
        if self.on.len() > 1 {
            let sum = match self.adding.as_deref() {
                None => NETWORK.to_owned(),
                Some([]) => SERVER.to_owned(),
                Some(some) => format!("{SWITCHES}{}", some.join(",")),
            };
            write!(f, " sum={sum}")?;
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
        let mut decision = Self { on: Vec::new(), ps: None, adding: None, at_s: None, run: None };
        for word in words {
            match word.split_once('=').ok_or(NotADecision)? {
                ("on", nodes) => {
                    decision.on = nodes.split(',').map(share).collect::<Result<_, _>>()?
                }
                ("ps", node) => decision.ps = Some(node.to_owned()),
                ("sum", NETWORK) => decision.adding = None,
                ("sum", place) => {
                    let some = place.strip_prefix(SWITCHES).map(|some| some.split(','));
                    let some = some.into_iter().flatten().map(str::to_owned);
                    decision.adding = Some(some.collect());
                }
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
            adding: None,
            at_s: Some(9),
            run: Some(7),
        };
        let text = |adding: Option<&[&str]>| {
            let adding = adding.map(|some| some.iter().map(|&name| name.into()).collect());
            Decision { adding, ..decision.clone() }.to_string()
        };
        let said = |sum: &str| format!("tributary on=n1:2,n3:1 ps=n1 sum={sum} at=9 run=7");
        assert_eq!(text(None), said("network"));
        assert_eq!(text(Some(&[])), said("server"));
        assert_eq!(text(Some(&["s1", "s2"])), said("switches:s1,s2"));
        for other in ["", "tributary", "tributary on=n1", "tributary on=n1:2 x=1", "note"] {
            assert_eq!(other.parse::<Decision>(), Err(NotADecision), "{other}");
        }
    }

    proptest! {
        #[test]
        fn decisions_are_read_back(
            on in prop::collection::vec(("[a-z0-9-]{1,8}", 0_u32..9), 1..6),
            has_ps: bool,
            adding in prop::option::of(prop::collection::vec("[a-z0-9-]{1,8}", 0..4)),
            at_s in prop::option::of(any::<u64>()),
            run in prop::option::of(1_u32..),
        ) {
            let ps = has_ps.then(|| on[0].0.clone());
            // It is not written for a single node.
            let adding = adding.filter(|_| on.len() > 1);
            let decision = Decision { on, ps, adding, at_s, run };
            prop_assert_eq!(decision.to_string().parse(), Ok(decision));
        }
    }
}
