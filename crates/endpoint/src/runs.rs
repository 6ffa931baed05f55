//! Runs from the command line.

use std::str::FromStr;

use anyhow::Result;
use tributary_model::JobSpec;
use tributary_wire::Epoch;

use crate::Args;

/// An epoch from the command line, for one job of the file or for the only one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    job: Option<String>,
    epoch: Epoch,
}

impl Given {
    /// Whether it names no job.
    pub(crate) fn is_for_all(&self) -> bool {
        self.job.is_none()
    }
}

impl FromStr for Given {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (job, number) = match text.split_once('=') {
            Some((job, number)) => (Some(job.to_owned()), number),
            None => (None, text),
        };
        let epoch = number.parse().ok().and_then(Epoch::new);
        let epoch = epoch.ok_or("write N or JOB=N, with a number from 1 to 4294967295")?;
        Ok(Self { job, epoch })
    }
}

impl std::fmt::Display for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.job {
            Some(job) => write!(f, "{job}={}", self.epoch),
            None => self.epoch.fmt(f),
        }
    }
}

impl Args {
    /// The runs of a job's lanes, if the command line has them.
    #[must_use]
    pub fn given(&self, lanes: &[JobSpec]) -> Option<Vec<Epoch>> {
        let of = |lane: &JobSpec| {
            let own = |given: &&Given| given.job.as_ref().is_none_or(|name| *name == lane.name);
            self.epoch.iter().find(own).map(|given| given.epoch)
        };
        lanes.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_given_for_one_job_or_all() {
        for (text, job, epoch) in [("7", None, 7), ("a=9", Some("a"), 9)] {
            let given: Given = text.parse().unwrap();
            assert_eq!((given.job.as_deref(), given.epoch.get()), (job, epoch));
            assert_eq!(given.to_string(), text);
        }
        for text in ["", "0", "a=0", "a=", "=", "a", "4294967296", "-1", "1=2=3"] {
            assert!(text.parse::<Given>().is_err(), "{text}");
        }
    }
}
