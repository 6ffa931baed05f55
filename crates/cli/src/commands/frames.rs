//! Which frames of a run in virtual time are written.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_base::document::duration;
use tributary_model::Scenario;
use tributary_sim::{Sighting, Trace};
use tributary_wire::JobId;

/// Which frames and messages are written: of a job, at a host or switch, in a time. Without a condition, all.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Chosen {
    job: Option<String>,
    place: Option<String>,
    from: Duration,
    to: Option<Duration>,
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut chosen = Self::default();
        for part in text.split(',') {
            let time = |value: &str| {
                duration(value)
                    .ok_or_else(|| format!("`{value}` is no time; write one as in `1.5ms`"))
            };
            match part.split_once('=') {
                Some(("job", name)) => chosen.job = Some(name.to_owned()),
                Some(("at", name)) => chosen.place = Some(name.to_owned()),
                Some(("from", value)) => chosen.from = time(value)?,
                Some(("to", value)) => chosen.to = Some(time(value)?),
                _ => {
                    return Err(format!(
                        "`{part}` is no condition; write some of job=NAME, at=HOST, from=TIME and to=TIME, with commas"
                    ));
                }
            }
        }
        match chosen.to {
            Some(to) if to < chosen.from => Err("`to` is before `from`".to_owned()),
            _ => Ok(chosen),
        }
    }
}

impl Chosen {
    /// The part of a trace that was chosen.
    ///
    /// # Errors
    /// If the scenario has no such job, host or switch.
    pub(crate) fn of(&self, scenario: &Scenario, trace: &Trace) -> Result<Trace> {
        let jobs: Option<Vec<JobId>> = self.job.as_ref().map(|name| {
            let thread = format!("{name}/");
            let is = |own: &str| own == name || own.starts_with(&thread);
            scenario.jobs.iter().filter(|job| is(&job.name)).map(|job| job.id).collect()
        });
        if let (Some(name), Some([])) = (&self.job, jobs.as_deref()) {
            let known: Vec<&str> = scenario.jobs.iter().map(|job| &*job.name).collect();
            anyhow::bail!(
                "--frames-of: there is no job `{name}`; the jobs are {}",
                known.join(", ")
            );
        }
        if let Some(place) = &self.place {
            let topology = &scenario.network.topology;
            let hosts = topology.hosts.iter().map(|host| &host.name);
            let switches = topology.switches.iter().map(|switch| &switch.name);
            ensure!(
                hosts.chain(switches).any(|name| name == place),
                "--frames-of: there is no host or switch `{place}`; `tributary network` lists them"
            );
        }
        let time = |sighting: &Sighting| Duration::from_nanos(sighting.time);
        Ok(trace.without(|sighting| {
            let of_job = match (&jobs, sighting.job()) {
                (Some(wanted), Some(job)) => wanted.contains(&job),
                (wanted, None) => wanted.is_none(),
                (None, _) => true,
            };
            let here = |place: &String| [&sighting.from, &sighting.to].contains(&place);
            let in_time =
                time(sighting) >= self.from && self.to.is_none_or(|to| time(sighting) <= to);
            !(of_job && in_time && self.place.as_ref().is_none_or(here))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_mistakes_are_one_clear_line() {
        let chosen: Chosen = "job=a,at=w1,from=1.5ms,to=2ms".parse().unwrap();
        assert_eq!((chosen.job.as_deref(), chosen.place.as_deref()), (Some("a"), Some("w1")));
        assert_eq!((chosen.from.as_micros(), chosen.to.unwrap().as_micros()), (1500, 2000));
        assert_eq!("from=0s".parse(), Ok(Chosen::default()));
        let fault = |text: &str| text.parse::<Chosen>().unwrap_err();
        assert_eq!(fault("from=soon"), "`soon` is no time; write one as in `1.5ms`");
        assert!(
            fault("worker=1").starts_with("`worker=1` is no condition; write some of job=NAME")
        );
        assert!(fault("").starts_with("`` is no condition"));
        assert_eq!(fault("from=2ms,to=1ms"), "`to` is before `from`");
    }
}
