//! Jobs and nodes, from the JSON of `squeue --json` and `sinfo --json`.
//!
//! Slurm 22.05 writes numbers and states plainly. Later releases write a number as
//! `{"set": true, "infinite": false, "number": 5}` and a state as a list of words. Both are read.
//! Unknown keys are ignored, and missing ones are taken as empty.

use serde::{Deserialize, Deserializer};

use crate::slurm::gres;
use crate::slurm::hostlist::{self, BadList};

/// Why a listing cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BadListing {
    /// It is not the JSON that the command writes.
    #[error("{0}; the JSON of Slurm 22.05 and later is understood")]
    Json(#[from] serde_json::Error),
    /// Slurm reports an error in it.
    #[error("{0}")]
    Slurm(String),
    /// A list of nodes is invalid.
    #[error(transparent)]
    Nodes(#[from] BadList),
}

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// It waits, also after it was requeued.
    Pending,
    /// It has its nodes, and Slurm prepares them: the prolog runs.
    Starting,
    /// It runs, or is suspended.
    Running,
    /// It has ended, and Slurm cleans up: the epilog runs.
    Completing,
    /// It is over.
    Over,
}

/// A job as `squeue` lists it.
#[derive(Clone, PartialEq, Debug)]
pub struct QueuedJob {
    /// Its ID.
    pub id: u32,
    /// How far it is.
    pub phase: Phase,
    /// Whether it waits for somebody to release it.
    pub held: bool,
    /// Why it waits, in Slurm's word.
    pub reason: String,
    /// The user's comment.
    pub comment: String,
    /// The administrators' comment.
    pub admin_comment: String,
    /// Names of its partitions; Slurm chooses one of them.
    pub partitions: Vec<String>,
    /// GPUs requested for the whole job (`--gpus`).
    pub gpus: u32,
    /// Whether it requests GPUs for each node, socket or task.
    pub gpus_by_part: bool,
    /// Whether it is a job array or one part of a heterogeneous job.
    pub compound: bool,
    /// Whether it depends on other jobs that are not over.
    pub depends: bool,
    /// Its nodes, once it has them, each with its number of GPUs.
    pub nodes: Vec<(String, u32)>,
    /// When it was submitted, in seconds since 1970.
    pub submit_s: u64,
    /// When it may start at the earliest, in seconds since 1970; 0 if it is not known.
    pub eligible_s: u64,
    /// Its time limit in seconds; `None` if there is none.
    pub limit_s: Option<u64>,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Names of its partitions.
    pub partitions: Vec<String>,
    /// Whether Slurm starts jobs on it.
    pub usable: bool,
    /// Number of its GPUs.
    pub gpus: u32,
    /// Number of GPUs that jobs have, or that cannot be had because jobs have all CPUs.
    pub used: u32,
}

/// Reads the output of `squeue --json`.
///
/// # Errors
///
/// [`BadListing`].
pub fn jobs(json: &str) -> Result<Vec<QueuedJob>, BadListing> {
    let listing: Jobs = serde_json::from_str(json)?;
    refuse(&listing.errors)?;
    listing.jobs.into_iter().map(RawJob::read).collect()
}

/// Reads the output of `sinfo --json` of Slurm 22.05, or of `scontrol show nodes --json` of later
/// releases, whose `sinfo` lists partitions instead.
///
/// # Errors
///
/// [`BadListing`].
pub fn nodes(json: &str) -> Result<Vec<Node>, BadListing> {
    let listing: Nodes = serde_json::from_str(json)?;
    refuse(&listing.errors)?;
    Ok(listing.nodes.into_iter().map(RawNode::read).collect())
}

fn refuse(errors: &[RawError]) -> Result<(), BadListing> {
    match errors.first() {
        None => Ok(()),
        Some(RawError { error, description }) => {
            let what = if description.is_empty() { error } else { description };
            Err(BadListing::Slurm(what.clone()))
        }
    }
}

#[derive(Deserialize)]
struct Jobs {
    jobs: Vec<RawJob>,
    #[serde(default)]
    errors: Vec<RawError>,
}

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<RawNode>,
    #[serde(default)]
    errors: Vec<RawError>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct RawError {
    #[serde(deserialize_with = "text")]
    error: String,
    #[serde(deserialize_with = "text")]
    description: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawJob {
    job_id: u32,
    job_state: Words,
    #[serde(deserialize_with = "number")]
    priority: Option<u64>,
    #[serde(deserialize_with = "text")]
    state_reason: String,
    #[serde(deserialize_with = "text")]
    comment: String,
    #[serde(deserialize_with = "text")]
    admin_comment: String,
    #[serde(deserialize_with = "text")]
    partition: String,
    #[serde(deserialize_with = "text")]
    nodes: String,
    #[serde(deserialize_with = "text")]
    dependency: String,
    gres_detail: Vec<String>,
    #[serde(deserialize_with = "text")]
    tres_per_job: String,
    #[serde(deserialize_with = "text")]
    tres_per_node: String,
    #[serde(deserialize_with = "text")]
    tres_per_socket: String,
    #[serde(deserialize_with = "text")]
    tres_per_task: String,
    #[serde(deserialize_with = "number")]
    array_job_id: Option<u64>,
    #[serde(deserialize_with = "number")]
    het_job_id: Option<u64>,
    #[serde(deserialize_with = "number")]
    submit_time: Option<u64>,
    #[serde(deserialize_with = "number")]
    eligible_time: Option<u64>,
    /// In minutes.
    #[serde(deserialize_with = "number")]
    time_limit: Option<u64>,
}

impl RawJob {
    fn read(self) -> Result<QueuedJob, BadListing> {
        let phase = phase(&self.job_state.0);
        let names = hostlist::expand(&self.nodes)?;
        // One entry per node, in the order of the nodes.
        let gpus =
            self.gres_detail.iter().map(|detail| gres::gpus(detail)).chain(std::iter::repeat(0));
        let by_part = [&self.tres_per_node, &self.tres_per_socket, &self.tres_per_task];
        Ok(QueuedJob {
            id: self.job_id,
            phase,
            held: phase == Phase::Pending && self.priority == Some(0),
            reason: self.state_reason,
            comment: self.comment,
            admin_comment: self.admin_comment,
            partitions: self.partition.split(',').map(str::to_owned).collect(),
            gpus: gres::gpus(&self.tres_per_job),
            gpus_by_part: by_part.into_iter().any(|tres| gres::gpus(tres) > 0),
            compound: [self.array_job_id, self.het_job_id].into_iter().flatten().any(|id| id != 0),
            depends: !self.dependency.is_empty(),
            nodes: names.into_iter().zip(gpus).collect(),
            submit_s: self.submit_time.unwrap_or(0),
            eligible_s: self.eligible_time.unwrap_or(0),
            limit_s: self.time_limit.map(|minutes| minutes.saturating_mul(60)),
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawNode {
    name: String,
    #[serde(deserialize_with = "text")]
    address: String,
    state: Words,
    state_flags: Words,
    partitions: Vec<String>,
    #[serde(deserialize_with = "text")]
    gres: String,
    #[serde(deserialize_with = "text")]
    gres_used: String,
    /// CPUs that no job has.
    #[serde(deserialize_with = "number", alias = "alloc_idle_cpus")]
    idle_cpus: Option<u64>,
}

/// States in which Slurm starts jobs on a node.
const USABLE: [&str; 3] = ["IDLE", "MIXED", "ALLOCATED"];

/// Beginnings of the flags of nodes on which Slurm starts no job.
const UNUSABLE: [&str; 10] = [
    "DRAIN",
    "FAIL",
    "NOT_RESPONDING",
    "MAINT",
    "RESERVED",
    "REBOOT",
    "POWERING",
    "POWERED",
    "POWER_DOWN",
    "INVAL",
];

impl RawNode {
    fn read(self) -> Node {
        let all: Vec<String> = self
            .state
            .0
            .iter()
            .chain(&self.state_flags.0)
            .map(|word| word.to_uppercase())
            .collect();
        let is_unusable = |word: &String| UNUSABLE.iter().any(|flag| word.starts_with(flag));
        let usable = all.iter().any(|word| USABLE.contains(&word.as_str()));
        let gpus = gres::gpus(&self.gres);
        // Slurm gives no GPU without a CPU.
        let used = if self.idle_cpus == Some(0) { gpus } else { gres::gpus(&self.gres_used) };
        Node {
            name: self.name,
            address: self.address,
            partitions: self.partitions,
            usable: usable && !all.iter().any(is_unusable),
            gpus,
            used,
        }
    }
}

/// The phase of a job in these states: its base state and flags, of which Slurm 22.05 names one.
fn phase(words: &[String]) -> Phase {
    let is = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    if is(&["PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"])
    {
        return Phase::Pending;
    }
    if is(&["COMPLETING", "STAGE_OUT"]) {
        return Phase::Completing;
    }
    if is(&["CONFIGURING", "POWER_UP_NODE"]) {
        return Phase::Starting;
    }
    let over = [
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "LAUNCH_FAILED",
        "REVOKED",
        "RECONFIG_FAIL",
    ];
    // A job in an unknown state keeps what it has.
    if is(&over) { Phase::Over } else { Phase::Running }
}

/// One word, or a list of words.
#[derive(Deserialize)]
#[serde(from = "OneOrMany")]
#[derive(Default)]
struct Words(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Words {
    fn from(words: OneOrMany) -> Self {
        match words {
            OneOrMany::One(word) => Self(vec![word]),
            OneOrMany::Many(words) => Self(words),
        }
    }
}

/// A text, which may be missing (`null`).
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(u64),
    Detailed {
        #[serde(default)]
        set: bool,
        #[serde(default)]
        infinite: bool,
        #[serde(default)]
        number: u64,
    },
}

/// A number that may be missing or infinite.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(match Option::<Number>::deserialize(deserializer)? {
        Some(Number::Plain(number)) => Some(number),
        Some(Number::Detailed { set: true, infinite: false, number }) => Some(number),
        Some(Number::Detailed { .. }) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(json: &str) -> QueuedJob {
        jobs(json).unwrap_or_else(|error| panic!("{error}")).remove(0)
    }

    /// In the form of Slurm 22.05.
    const HELD: &str = r#"{"meta": {}, "errors": [], "jobs": [{
        "admin_comment": "", "array_job_id": 0, "array_task_id": null, "comment": "tributary",
        "dependency": "", "eligible_time": 0, "gres_detail": [], "het_job_id": 0, "job_id": 12,
        "job_state": "PENDING", "nodes": "", "partition": "main", "priority": 0,
        "state_reason": "JobHeldUser", "submit_time": 1795671426, "time_limit": null,
        "tres_per_job": "gres:gpu:3", "tres_per_node": "", "user_name": "ann"}]}"#;

    #[test]
    fn a_held_job_waits_for_its_release() {
        let job = one(HELD);
        assert_eq!((job.id, job.phase, job.held, job.gpus), (12, Phase::Pending, true, 3));
        assert_eq!((job.submit_s, job.limit_s), (1_795_671_426, None));
        assert_eq!((job.compound, job.depends, job.gpus_by_part), (false, false, false));
        assert_eq!((job.partitions, job.nodes), (vec!["main".to_owned()], vec![]));
    }

    #[test]
    fn a_running_job_has_gpus_on_each_node() {
        let job = one(
            r#"{"jobs": [{"job_id": 4, "job_state": "RUNNING", "nodes": "n[1,3]", "priority": 9,
                "gres_detail": ["gpu:2(IDX:0-1)", "gpu:1(IDX:0)"], "tres_per_job": "gres:gpu:3",
                "time_limit": 2, "partition": "main,other"}]}"#,
        );
        assert_eq!((job.phase, job.held), (Phase::Running, false));
        assert_eq!(job.nodes, [("n1".to_owned(), 2), ("n3".to_owned(), 1)]);
        assert_eq!(job.limit_s, Some(120));
        assert_eq!(job.partitions, ["main", "other"]);
    }

    #[test]
    fn the_forms_of_later_releases_are_read() {
        let job = one(r#"{"jobs": [{"job_id": 4, "job_state": ["PENDING", "REQUEUED"],
                "priority": {"set": true, "infinite": false, "number": 0},
                "time_limit": {"set": false, "infinite": true, "number": 0},
                "array_job_id": {"set": true, "infinite": false, "number": 0},
                "eligible_time": {"set": true, "infinite": false, "number": 77},
                "comment": null, "tres_per_job": "gres/gpu:a100=2", "nodes": "", "partition": "p"}]}"#);
        assert_eq!((job.phase, job.held, job.gpus), (Phase::Pending, true, 2));
        assert_eq!((job.limit_s, job.eligible_s, job.compound), (None, 77, false));
        assert_eq!(job.comment, "");
    }

    #[test]
    fn phases_follow_the_states() {
        for (state, phase) in [
            ("PENDING", Phase::Pending),
            ("REQUEUED", Phase::Pending),
            ("CONFIGURING", Phase::Starting),
            ("RUNNING", Phase::Running),
            ("SUSPENDED", Phase::Running),
            ("COMPLETING", Phase::Completing),
            ("COMPLETED", Phase::Over),
            ("CANCELLED", Phase::Over),
            ("NODE_FAIL", Phase::Over),
            ("A_STATE_OF_THE_FUTURE", Phase::Running),
        ] {
            let json = HELD.replace("PENDING", state);
            assert_eq!(one(&json).phase, phase, "{state}");
        }
    }

    #[test]
    fn arrays_dependencies_and_gpus_per_node_are_seen() {
        let array = HELD.replace("\"array_job_id\": 0", "\"array_job_id\": 12");
        assert!(one(&array).compound);
        let dependent =
            HELD.replace("\"dependency\": \"\"", "\"dependency\": \"afterok:1(unfulfilled)\"");
        assert!(one(&dependent).depends);
        let per_node = HELD.replace("\"tres_per_node\": \"\"", "\"tres_per_node\": \"gres:gpu:2\"");
        assert!(one(&per_node).gpus_by_part);
    }

    #[test]
    fn nodes_are_usable_where_slurm_starts_jobs() {
        let node = |state: &str, flags: &str| {
            let json = format!(
                r#"{{"nodes": [{{"name": "n1", "address": "10.0.0.1", "state": {state},
                    "state_flags": {flags}, "partitions": ["main"], "gres": "gpu:2",
                    "gres_used": "gpu:1(IDX:0)"}}]}}"#
            );
            nodes(&json).unwrap().remove(0)
        };
        let idle = node("\"idle\"", "[]");
        assert_eq!((idle.gpus, idle.used, idle.usable), (2, 1, true));
        assert_eq!((idle.name.as_str(), idle.address.as_str()), ("n1", "10.0.0.1"));
        let full =
            r#"{"nodes": [{"name": "n1", "gres": "gpu:2", "gres_used": "", "idle_cpus": 0}]}"#;
        assert_eq!(nodes(full).unwrap()[0].used, 2, "GPUs cannot be used without a CPU");
        assert!(node("\"mixed\"", "[\"COMPLETING\"]").usable);
        assert!(node("[\"ALLOCATED\", \"PLANNED\"]", "[]").usable);
        for (state, flags) in [
            ("\"down\"", "[]"),
            ("\"idle\"", "[\"DRAIN\"]"),
            ("\"idle\"", "[\"NOT_RESPONDING\"]"),
            ("[\"IDLE\", \"DRAIN\"]", "[]"),
            ("[\"IDLE\", \"MAINTENANCE\"]", "[]"),
            ("\"inval\"", "[]"),
            ("\"unknown\"", "[]"),
        ] {
            assert!(!node(state, flags).usable, "{state} {flags}");
        }
    }

    #[test]
    fn errors_are_reported() {
        let error = jobs(r#"{"jobs": [], "errors": [{"error": "Unable to contact slurmctld"}]}"#);
        assert_eq!(error.unwrap_err().to_string(), "Unable to contact slurmctld");
        let error = jobs("slurm_load_jobs error").unwrap_err().to_string();
        assert!(error.contains("the JSON of Slurm 22.05 and later"), "{error}");
        let error = jobs(&HELD.replace("\"nodes\": \"\"", "\"nodes\": \"n[1\"")).unwrap_err();
        assert!(error.to_string().contains("a bracket"), "{error}");
    }
}
