//! Which ranks each worker of a group's job stands for.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::agreement;

/// The ranks of each member of a group, in ascending order. Ranks of a host that share memory are one member, and
/// its first rank is the member's worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Members(Vec<Vec<u16>>);

impl Members {
    /// Members with these ranks.
    ///
    /// # Errors
    /// If a rank is missing, or in two members, or a member has no ranks.
    pub fn new(members: Vec<Vec<u16>>) -> Result<Self> {
        let mut all: Vec<u16> = members.iter().flatten().copied().collect();
        all.sort_unstable();
        ensure!(
            all.iter().copied().eq((0..).take(all.len()))
                && members.iter().all(|ranks| !ranks.is_empty() && ranks.is_sorted()),
            "not the members of a group: {members:?}"
        );
        Ok(Self(members))
    }

    /// Each rank is a member.
    #[must_use]
    pub fn each_alone(ranks: u16) -> Self {
        Self((0..ranks).map(|rank| vec![rank]).collect())
    }

    /// Some ranks of a group, each as a member.
    pub(crate) fn alone(ranks: &[u16]) -> Self {
        Self(ranks.iter().map(|rank| vec![*rank]).collect())
    }

    /// Number of members.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Number of ranks of all members.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// The ranks of a member.
    pub(crate) fn of(&self, member: usize) -> &[u16] {
        self.0.get(member).map(Vec::as_slice).unwrap_or_default()
    }

    /// The rank that is a member's worker.
    pub(crate) fn worker(&self, member: usize) -> u16 {
        self.of(member).first().copied().unwrap_or(u16::MAX)
    }

    /// The ranks of some members in words, as [`agreement::names`] has them.
    pub(crate) fn names(&self, members: &[usize]) -> String {
        let mut ranks: Vec<usize> =
            members.iter().flat_map(|member| self.of(*member)).copied().map(usize::from).collect();
        ranks.sort_unstable();
        agreement::names(&ranks)
    }

    /// Members of which some rank has not done something, in words, with "has" or "have".
    pub(crate) fn have(&self, members: &[usize]) -> String {
        let is_alone = |member: &usize| self.of(*member).len() == 1;
        match members.iter().all(is_alone) {
            true => self.with_verb(members, "has", "have"),
            false => format!("some of {} have", self.names(members)),
        }
    }

    /// Members in words, with a verb that one rank needs, or several do.
    fn with_verb(&self, members: &[usize], one: &str, several: &str) -> String {
        let is_one = matches!(members, [member] if self.of(*member).len() == 1);
        format!("{} {}", self.names(members), if is_one { one } else { several })
    }

    /// What each member calls, in a line. Those that call the same are named together.
    pub(crate) fn who_calls_what(&self, texts: &[String]) -> String {
        let call = |(text, members): (&str, Vec<usize>)| {
            format!("{} {text}", self.with_verb(&members, "calls", "call"))
        };
        by_text(texts).into_iter().map(call).collect::<Vec<_>>().join(", ")
    }

    /// Who says what, in a line. Members that say the same are named together; those that say nothing are left out.
    pub(crate) fn who_says_what(&self, texts: &[String]) -> String {
        let said = by_text(texts).into_iter().filter(|(text, _)| !text.is_empty());
        let said = said.map(|(text, members)| format!("{}: {text}", self.names(&members)));
        said.collect::<Vec<_>>().join(", ")
    }
}

/// The texts, each with the members that have it.
fn by_text(texts: &[String]) -> Vec<(&str, Vec<usize>)> {
    let mut all: Vec<(&str, Vec<usize>)> = Vec::new();
    for (member, text) in texts.iter().enumerate() {
        match all.iter_mut().find(|(known, _)| known == text) {
            Some((_, members)) => members.push(member),
            None => all.push((text, vec![member])),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_by_their_ranks() {
        let members = Members::new(vec![vec![0, 1, 2], vec![3], vec![4, 5]]).unwrap();
        assert_eq!((members.count(), members.ranks(), members.worker(2)), (3, 6, 4));
        assert_eq!(members.names(&[0, 2]), "ranks 0–2, 4 and 5");
        let texts = ["barrier", "all_reduce", "barrier"].map(str::to_owned);
        let said = "ranks 0–2, 4 and 5 call barrier, rank 3 calls all_reduce";
        assert_eq!(members.who_calls_what(&texts), said);
        assert_eq!(members.who_says_what(&["", "no", ""].map(str::to_owned)), "rank 3: no");
        assert_eq!(members.have(&[2]), "some of ranks 4 and 5 have");
        assert_eq!(members.have(&[1]), "rank 3 has");
        assert_eq!(Members::alone(&[7, 9]).names(&[1]), "rank 9");
    }

    #[test]
    fn each_rank_is_in_one_member() {
        for wrong in [
            vec![vec![0], vec![2]],
            vec![vec![0, 1], vec![1]],
            vec![vec![0], vec![]],
            vec![vec![1, 0]],
        ] {
            assert!(Members::new(wrong).is_err());
        }
    }
}
