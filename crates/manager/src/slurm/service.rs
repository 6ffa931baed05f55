//! The loop of `tributary place slurm`, and what Slurm calls for each job: prolog, epilog and
//! environment.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::site::Site;
use tonic::{Code, Status};
use tributary_access::remote;
use tributary_cluster::Policy;

use crate::slurm::commands::{self, Trouble};
use crate::slurm::decision::Decision;
use crate::slurm::hostlist::{self, BadList};
use crate::slurm::number;
use crate::slurm::placer::{self, Listing, Repair, Served, Settings, Step};
use crate::slurm::switches::Switches;

/// Pause between two attempts of a hook to reach the controller.
const PAUSE: Duration = Duration::from_millis(500);

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// Slurm does not tell about the job.
    #[error(transparent)]
    Slurm(#[from] Trouble),
    /// Slurm has no such job.
    #[error("Slurm has no job {0}")]
    Unknown(u32),
    /// The list of the job's nodes is invalid.
    #[error("SLURM_JOB_NODELIST: {0}")]
    Nodes(#[from] BadList),
    /// The controller refuses, or does not answer.
    #[error("job {0}: the switches' controller: {1}")]
    Controller(u32, String),
    /// The node is not one of the job's.
    #[error("node {0} has no worker of job {1}, whose workers are on {2}")]
    Stranger(String, u32, String),
}

/// Places jobs, and keeps the switches in accordance with Slurm.
pub struct Placer {
    /// The servers and their network.
    pub site: Site,
    /// Decides where jobs go.
    pub policy: Box<dyn Policy>,
    /// Its settings.
    pub settings: Settings,
    /// Whether other clients admit jobs at the controller too.
    pub shared: bool,
    /// The controller.
    pub switches: Switches,
}

impl Placer {
    /// Works until the future is dropped, which is safe at any time. `tell` gets one line per
    /// decision.
    pub async fn run(&mut self, tell: impl Fn(&str)) {
        let mut news = LastTold::default();
        let mut rounds = tokio::time::interval(Duration::from_millis(self.settings.period_ms));
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            // Before Slurm's jobs: see `reconcile`.
            let served = self.switches.list().await;
            news.answers("the switches' controller", served.as_ref().err().map(reason), &tell);
            let listing = listing().await;
            news.answers("Slurm", listing.as_ref().err().map(Trouble::to_string), &tell);
            let Ok(listing) = listing else { continue };
            if let Ok(served) = served {
                self.reconcile(&served, &listing, &mut news, &tell).await;
            }
            self.place(&listing, &mut news, &tell).await;
            news.forget(&listing);
        }
    }

    async fn place(&mut self, listing: &Listing, news: &mut LastTold, tell: &impl Fn(&str)) {
        let Self { site, policy, settings, .. } = self;
        for step in placer::decide(site, policy.as_mut(), settings, listing, now_s()) {
            match step {
                Step::Place(job, decision) => match commands::place(job, &decision).await {
                    Ok(()) => news.tell(job, describe(&decision), tell),
                    // It may have been cancelled meanwhile. The next round sees it as it is then.
                    Err(error) => news.tell(job, error.to_string(), tell),
                },
                Step::TakeBack(job, why) => match commands::take_back(job).await {
                    Ok(()) => news.tell(job, why, tell),
                    Err(error) => news.tell(job, error.to_string(), tell),
                },
                Step::Leave(job, why) => news.tell(job, why, tell),
            }
        }
    }

    async fn reconcile(
        &mut self,
        served: &BTreeMap<u16, Served>,
        listing: &Listing,
        news: &mut LastTold,
        tell: &impl Fn(&str),
    ) {
        for repair in placer::reconcile(served, &listing.jobs, self.shared) {
            let (job, done) = match repair {
                Repair::Release(number) => {
                    let done = self.switches.release(number).await;
                    let what = "released at the controller: Slurm has ended it";
                    (number.into(), done.map(|()| what.to_owned()))
                }
                Repair::Admit(admission) => {
                    let done = self.switches.admit(&admission).await;
                    let what = |(run, _)| format!("admitted again for run {run}");
                    (admission.job, done.map(what))
                }
            };
            match done {
                Ok(what) => news.tell(job, what, tell),
                Err(status) => {
                    news.tell(job, format!("the switches' controller: {}", reason(&status)), tell);
                }
            }
        }
    }
}

async fn listing() -> Result<Listing, Trouble> {
    // Nodes first: a job that starts in between counts twice rather than not at all.
    let nodes = commands::nodes().await?;
    Ok(Listing { nodes, jobs: commands::jobs().await? })
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A decision for people.
fn describe(decision: &Decision) -> String {
    let on = placer::nodes(decision);
    if decision.on.len() < 2 {
        return format!("placed on {on}");
    }
    let sum = match decision.adding.as_deref() {
        None => "in the network".to_owned(),
        Some([]) => "at the server alone".to_owned(),
        Some(some) => format!("by {} and the server", some.join(", ")),
    };
    match &decision.ps {
        Some(ps) => format!("placed on {on}; parameter server on {ps}, summed {sum}"),
        None => format!("placed on {on}; summed {sum}"),
    }
}

fn reason(status: &Status) -> String {
    match status.code() {
        Code::Unavailable => format!("it does not answer ({})", remote::reason(status)),
        _ => remote::reason(status),
    }
}

/// What was told last, so that a round says only what is new.
#[derive(Default)]
struct LastTold {
    jobs: BTreeMap<u32, String>,
    troubles: BTreeMap<&'static str, String>,
}

impl LastTold {
    fn tell(&mut self, job: u32, what: String, tell: &impl Fn(&str)) {
        if self.jobs.get(&job) != Some(&what) {
            tell(&format!("job {job}: {what}"));
            self.jobs.insert(job, what);
        }
    }

    fn answers(&mut self, who: &'static str, trouble: Option<String>, tell: &impl Fn(&str)) {
        match trouble {
            None if self.troubles.remove(who).is_some() => tell(&format!("{who}: answers again")),
            None => {}
            Some(trouble) => {
                if !self.troubles.contains_key(who) {
                    tell(&format!("{who}: {trouble}; asked again every round"));
                }
                self.troubles.insert(who, trouble);
            }
        }
    }

    fn forget(&mut self, listing: &Listing) {
        self.jobs.retain(|id, _| listing.jobs.iter().any(|job| job.id == *id));
    }
}

/// Before a job starts: admits it. Returns its run; `None` if it sends nothing through the network.
///
/// The controller is asked again until `patience` is over.
///
/// # Errors
///
/// [`HookError`]. Slurm then requeues the job.
pub async fn prolog(
    switches: &mut Switches,
    job: u32,
    patience: Duration,
) -> Result<Option<u32>, HookError> {
    let jobs = commands::jobs().await?;
    let found = jobs.iter().find(|other| other.id == job).ok_or(HookError::Unknown(job))?;
    let Some(mut admission) = placer::admission(found) else { return Ok(None) };
    // Each start is a run of its own.
    admission.run = None;
    let admitted = insist(job, patience, async || switches.clone().admit(&admission).await);
    let (run, ps) = admitted.await?;
    let decision: Option<Decision> = found.admin_comment.parse().ok();
    let decision = Decision {
        on: found.nodes.clone(),
        ps,
        adding: admission.adding,
        at_s: decision.and_then(|decision| decision.at_s),
        run: Some(run),
    };
    if let Err(error) = commands::note(job, &decision).await {
        // Only needed if the controller restarts while the job runs.
        tracing::warn!(job, "cannot record the run: {error}");
    }
    Ok(Some(run))
}

/// After a job: releases it if it is served with these nodes. May be repeated.
///
/// # Errors
///
/// [`HookError`]. The placer's loop then releases the job.
pub async fn epilog(
    switches: &mut Switches,
    job: u32,
    nodes: &str,
    patience: Duration,
) -> Result<bool, HookError> {
    let nodes = hostlist::expand(nodes)?;
    insist(job, patience, async || {
        let mut switches = switches.clone();
        let served = switches.list().await?.remove(&number(job));
        let is_own = served.is_some_and(|served| served.workers == nodes);
        if is_own {
            switches.release(number(job)).await?;
        }
        Ok(is_own)
    })
    .await
}

/// What the processes of a job on a node must know, as pairs of name and value; none if the job
/// sends nothing through the network.
///
/// # Errors
///
/// [`HookError`].
pub async fn environment(
    switches: &mut Switches,
    job: u32,
    node: &str,
    patience: Duration,
) -> Result<Vec<(&'static str, String)>, HookError> {
    let served = insist(job, patience, async || switches.clone().list().await).await?;
    let Some(Served { workers, ps, .. }) = served.get(&number(job)) else {
        return Ok(Vec::new());
    };
    let all = workers.join(",");
    let worker = workers.iter().position(|worker| worker == node);
    let worker = worker.ok_or_else(|| HookError::Stranger(node.into(), job, all.clone()))?;
    Ok(vec![
        ("TRIBUTARY_JOB", number(job).to_string()),
        ("TRIBUTARY_WORKER", worker.to_string()),
        ("TRIBUTARY_WORKERS", all),
        ("TRIBUTARY_SERVER", ps.clone()),
    ])
}

/// Repeats a request until it is answered or `patience` is over.
async fn insist<T>(
    job: u32,
    patience: Duration,
    request: impl AsyncFn() -> Result<T, Status>,
) -> Result<T, HookError> {
    let deadline = tokio::time::Instant::now() + patience;
    loop {
        let status = match request().await {
            Ok(answer) => return Ok(answer),
            Err(status) => status,
        };
        let passing =
            matches!(status.code(), Code::Unavailable | Code::Aborted | Code::DeadlineExceeded);
        if !passing || tokio::time::Instant::now() + PAUSE > deadline {
            return Err(HookError::Controller(job, reason(&status)));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
