//! What is shown, as plain data. Recordings are lines of it in JSON, and so are the page's events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of this format. A reader refuses others.
pub const VERSION: u32 = 1;

/// Most jobs of a scene.
pub const MOST_JOBS: usize = 256;
/// Most workers, hosts, switches and links of a scene.
pub const MOST_PARTS: usize = 1 << 14;
/// Most cells of the heat map, in all switches together.
pub const MOST_CELLS: usize = 2048;
/// Most bytes of a line.
pub const MOST_BYTES: usize = 1 << 22;

/// One line of a recording.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The network and its jobs: the first line, and again after a job came. Jobs keep their positions.
    Scene(Scene),
    /// The state at a time.
    Sample(Sample),
    /// An event that samples do not show.
    Note(Note),
    /// The last line.
    End(End),
}

/// How time passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// As on the wall.
    Real,
    /// As the simulator counts it.
    Virtual,
}

/// A network and its jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scene {
    /// [`VERSION`].
    pub version: u32,
    /// A title: the name of the job file, or the switches' addresses.
    pub name: String,
    /// The protocol: `atp`, `esa`, `p4inc` or `switchml`.
    pub protocol: String,
    /// Where it runs: `memory`, `netns`, `sim`, or `attached` for switches that ran before.
    pub fabric: String,
    /// How time passes.
    pub clock: Clock,
    /// The switches.
    pub switches: Vec<ShownSwitch>,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The links between them.
    pub links: Vec<Link>,
    /// The jobs.
    pub jobs: Vec<ShownJob>,
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShownSwitch {
    /// Its name.
    pub name: String,
    /// Number of aggregators.
    pub pool: u32,
    /// Number of cells that show them: one for each aggregator, or one for one of every `pool / cells`
    /// of them. Zero if the switch does not let its registers be read.
    pub cells: u32,
}

/// A host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
}

/// A link.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Its ends.
    pub ends: [Node; 2],
    /// Bits per second; `None` if that is not limited, or not known.
    pub rate: Option<u64>,
    /// Share of frames that it is told to lose.
    #[serde(default)]
    pub loss: f64,
}

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// A host, by its position in the scene.
    Host(usize),
    /// A switch, by its position.
    Switch(usize),
}

/// A job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShownJob {
    /// Its name.
    pub name: String,
    /// The host of each worker, by position in the scene.
    pub workers: Vec<usize>,
    /// The host of the parameter server.
    pub server: Option<usize>,
    /// The host of the reminder agent, if it has one of its own.
    pub agent: Option<usize>,
    /// Rounds of each worker; `None` if that is not known.
    pub rounds: Option<u64>,
}

/// The state at a time. Counts are totals since the job was admitted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Microseconds since the begin.
    pub at_us: u64,
    /// In the order of the scene's jobs; later jobs may be missing.
    pub jobs: Vec<JobSample>,
    /// In the order of the scene's switches.
    pub switches: Vec<SwitchSample>,
    /// In the order of the scene's links; empty if nothing counts their frames.
    #[serde(default)]
    pub links: Vec<LinkSample>,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Something that is wrong with a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Rule,
    /// The job that it is about.
    #[serde(default)]
    pub job: Option<usize>,
    /// The workers of this job that are the cause.
    #[serde(default)]
    pub workers: Vec<usize>,
    /// The link that is the cause.
    #[serde(default)]
    pub link: Option<usize>,
    /// Its directions that are: from its first end, and from its second.
    #[serde(default)]
    pub ways: [bool; 2],
    /// One line, without the name of the job.
    pub text: String,
}

/// Which rule has found something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A link loses frames.
    LossyLink,
    /// A job waits for a worker.
    LateWorker,
    /// Fragments find their aggregators taken.
    SmallPool,
    /// Workers wait for a core.
    BusyProcessor,
}

/// A job at a time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JobSample {
    /// By worker; empty if nothing is known of them.
    #[serde(default)]
    pub workers: Vec<WorkerSample>,
    /// Whether it has ended.
    #[serde(default)]
    pub over: bool,
}

/// A worker at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WorkerSample {
    /// Rounds that it has finished.
    pub rounds: u64,
    /// Aggregators among the cells that hold values of its job, but none of its own.
    #[serde(default)]
    pub awaited: u32,
    /// Packets that it has sent again.
    #[serde(default)]
    pub resent: u64,
    /// How much later than most workers of its job it begins a round, on average, in microseconds.
    #[serde(default)]
    pub late_us: u64,
}

/// A switch at a time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SwitchSample {
    /// For each job, packets by outcome, without zeros: the names of reports, and `evicted` for partial
    /// sums of the job that left because another task took their aggregator.
    pub counts: Vec<BTreeMap<String, u64>>,
    /// For each job, how many of the cells it holds.
    pub held: Vec<u32>,
    /// The cells: see [`pool`](crate::live::pool).
    #[serde(default)]
    pub cells: String,
}

/// A link at a time: from the first of its ends to the second, and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LinkSample {
    /// Bytes of frames.
    pub bytes: [u64; 2],
    /// Frames that a switch dropped because the queue for this direction was full.
    #[serde(default)]
    pub drops: [u64; 2],
    /// Frames that one end sent and the other did not receive.
    #[serde(default)]
    pub lost: [u64; 2],
}

/// How much a note matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// A milestone.
    Info,
    /// A warning.
    Warning,
    /// An error.
    Error,
}

/// An event that samples do not show.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Microseconds since the begin.
    pub at_us: u64,
    /// How much it matters.
    pub weight: Weight,
    /// The job that it is about.
    pub job: Option<usize>,
    /// One line.
    pub text: String,
}

/// The end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct End {
    /// Microseconds since the begin.
    pub at_us: u64,
    /// Why the run failed; `None` if it did not.
    pub failure: Option<String>,
}

/// Why a line is refused.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// It is not a line of this format.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It is of another version.
    #[error("its format has version {0}; this program reads version {VERSION}")]
    Version(u32),
    /// A limit is exceeded.
    #[error("more than {1} {0}")]
    Many(&'static str, usize),
    /// A position names nothing.
    #[error("{0} {1}, which the scene does not have")]
    Missing(&'static str, usize),
}

impl Line {
    /// Reads a line and checks it.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > MOST_BYTES {
            return Err(Invalid::Many("bytes in a line", MOST_BYTES));
        }
        let line: Self = serde_json::from_str(text)?;
        if let Self::Scene(scene) = &line {
            scene.check()?;
        }
        Ok(line)
    }

    /// The line as JSON, without an end of line.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Scene {
    /// Checks limits, and that positions name something.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn check(&self) -> Result<(), Invalid> {
        let Self { version, switches, hosts, links, jobs, .. } = self;
        if *version != VERSION {
            return Err(Invalid::Version(*version));
        }
        let few = |what, count: usize, most| match count > most {
            true => Err(Invalid::Many(what, most)),
            false => Ok(()),
        };
        few("jobs", jobs.len(), MOST_JOBS)?;
        few("switches", switches.len(), MOST_PARTS)?;
        few("hosts", hosts.len(), MOST_PARTS)?;
        few("links", links.len(), MOST_PARTS)?;
        few("workers", jobs.iter().map(|job| job.workers.len()).sum(), MOST_PARTS)?;
        let cells = switches.iter().fold(0_u32, |sum, switch| sum.saturating_add(switch.cells));
        few("cells", cells as usize, MOST_CELLS)?;
        let known = |what, position: usize, count| match position < count {
            true => Ok(()),
            false => Err(Invalid::Missing(what, position)),
        };
        for end in links.iter().flat_map(|link| link.ends) {
            match end {
                Node::Host(position) => known("host", position, hosts.len())?,
                Node::Switch(position) => known("switch", position, switches.len())?,
            }
        }
        let named = |job: &ShownJob| -> Vec<usize> {
            job.workers.iter().copied().chain(job.server).chain(job.agent).collect()
        };
        jobs.iter().flat_map(named).try_for_each(|host| known("host", host, hosts.len()))
    }
}

impl Finding {
    /// The whole line: with the name of the job, if it is about one.
    #[must_use]
    pub fn line(&self, scene: &Scene) -> String {
        match self.job.and_then(|job| scene.jobs.get(job)) {
            Some(job) => format!("{}: {}", job.name, self.text),
            None => self.text.clone(),
        }
    }
}

impl Sample {
    /// Packets of a job with an outcome, in all switches.
    #[must_use]
    pub fn count(&self, job: usize, outcome: &str) -> u64 {
        let counts = self.switches.iter().filter_map(|switch| switch.counts.get(job));
        counts.filter_map(|counts| counts.get(outcome)).sum()
    }

    /// The share of its rounds that a job has finished, by its slowest worker; `None` if not known.
    #[must_use]
    pub fn progress(&self, scene: &Scene, job: usize) -> Option<f64> {
        let rounds = scene.jobs.get(job)?.rounds.filter(|rounds| *rounds > 0)?;
        let slowest = self.jobs.get(job)?.workers.iter().map(|worker| worker.rounds).min()?;
        Some((slowest as f64 / rounds as f64).min(1.0))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two jobs at one switch of four cells.
    pub(crate) fn scene() -> Scene {
        let host = |name: &str| Host { name: name.into() };
        let link = |position| Link {
            ends: [Node::Host(position), Node::Switch(0)],
            rate: Some(10_000_000_000),
            loss: 0.0,
        };
        let job = |name: &str, workers: &[usize], server| ShownJob {
            name: name.into(),
            workers: workers.to_vec(),
            server: Some(server),
            agent: None,
            rounds: Some(4),
        };
        Scene {
            version: VERSION,
            name: "two".into(),
            protocol: "esa".into(),
            fabric: "sim".into(),
            clock: Clock::Virtual,
            switches: vec![ShownSwitch { name: "s1".into(), pool: 4, cells: 4 }],
            hosts: ["w1", "w2", "w3", "ps1"].map(host).to_vec(),
            links: (0..4).map(link).collect(),
            jobs: vec![job("slow", &[0, 1], 3), job("quick", &[2], 3)],
        }
    }

    /// A sample in which the second job has preempted the first so often.
    pub(crate) fn sample(at_us: u64, rounds: u64, preempted: u64) -> Sample {
        let worker = |rounds, awaited| WorkerSample { rounds, awaited, ..WorkerSample::default() };
        let counts = |list: &[(&str, u64)]| {
            list.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
        };
        Sample {
            at_us,
            jobs: vec![
                JobSample { workers: vec![worker(rounds, 0), worker(rounds / 2, 2)], over: false },
                JobSample { workers: vec![worker(rounds, 0)], over: false },
            ],
            switches: vec![SwitchSample {
                counts: vec![
                    counts(&[("absorbed", 9 * rounds), ("evicted", preempted)]),
                    counts(&[("completed", 3 * rounds), ("preempted", preempted)]),
                ],
                held: vec![2, 1],
                cells: "0a0c1B..".into(),
            }],
            links: vec![
                LinkSample {
                    bytes: [1000 * at_us, 10 * at_us],
                    drops: [0, preempted],
                    lost: [0, 0],
                };
                4
            ],
            findings: Vec::new(),
        }
    }

    #[test]
    fn a_line_survives_json() {
        for line in [
            Line::Scene(scene()),
            Line::Sample(sample(17, 2, 3)),
            Line::Note(Note {
                at_us: 5,
                weight: Weight::Warning,
                job: Some(1),
                text: "\"quoted\" ü".into(),
            }),
            Line::End(End { at_us: 9, failure: Some("interrupted".into()) }),
        ] {
            assert_eq!(Line::parse(&line.to_json()).unwrap(), line);
        }
    }

    #[test]
    fn a_scene_of_another_version_or_with_wrong_positions_is_refused() {
        let refused = |change: fn(&mut Scene)| {
            let mut scene = scene();
            change(&mut scene);
            Line::parse(&Line::Scene(scene).to_json()).unwrap_err().to_string()
        };
        assert!(refused(|scene| scene.version = 2).contains("version 2"));
        assert!(refused(|scene| scene.jobs[0].workers[1] = 99).contains("host 99"));
        assert!(refused(|scene| scene.links[0].ends[1] = Node::Switch(7)).contains("switch 7"));
        assert!(refused(|scene| scene.switches[0].cells = u32::MAX).contains("cells"));
    }

    #[test]
    fn progress_is_that_of_the_slowest_worker() {
        assert_eq!(sample(1, 4, 0).progress(&scene(), 0), Some(0.5));
        assert_eq!(sample(1, 4, 0).progress(&scene(), 1), Some(1.0));
        assert_eq!(sample(1, 4, 0).progress(&scene(), 2), None);
    }
}
