//! Slurm's commands. They find their cluster as users do: through `SLURM_CONF`, `/etc/slurm`, or
//! DNS.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::slurm::decision::Decision;
use crate::slurm::listing::{self, BadListing, Node, QueuedJob};

/// Maximum time for a command. While `slurmctld` restarts, commands wait for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum output of a command: about 100 000 jobs.
const LONGEST: u64 = 512 << 20;

/// Why a command of Slurm has no result.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It cannot be started.
    #[error("cannot start `{program}`: {error}; install Slurm's commands and put them on the PATH")]
    Start {
        /// The command.
        program: &'static str,
        /// The reason.
        error: std::io::Error,
    },
    /// It failed.
    #[error("`{command}` failed: {reason}")]
    Failed {
        /// The command line.
        command: String,
        /// Its first error message.
        reason: String,
    },
    /// It printed something unexpected.
    #[error("`{program}`: {error}")]
    Output {
        /// The command.
        program: &'static str,
        /// The reason.
        error: BadListing,
    },
}

/// Lists all jobs, including those that ended recently.
///
/// # Errors
///
/// [`Trouble`].
pub async fn jobs() -> Result<Vec<QueuedJob>, Trouble> {
    // Without `--states`, some releases leave out the jobs that ended.
    let json = run("squeue", &["--json", "--all", "--states=all"]).await?;
    listing::jobs(&json).map_err(|error| Trouble::Output { program: "squeue", error })
}

/// Lists all nodes.
///
/// # Errors
///
/// [`Trouble`].
pub async fn nodes() -> Result<Vec<Node>, Trouble> {
    let json = run("sinfo", &["--json"]).await?;
    if let Ok(nodes) = listing::nodes(&json) {
        return Ok(nodes);
    }
    // From 23.02 on, `sinfo` lists partitions.
    let json = run("scontrol", &["show", "nodes", "--json"]).await?;
    listing::nodes(&json).map_err(|error| Trouble::Output { program: "scontrol", error })
}

/// Names the nodes of a held job, and then releases it.
///
/// # Errors
///
/// [`Trouble`]. The job may then have its nodes and still be held.
pub async fn place(job: u32, decision: &Decision) -> Result<(), Trouble> {
    let nodes: Vec<&str> = decision.on.iter().map(|(node, _)| node.as_str()).collect();
    let (count, nodes) = (nodes.len(), nodes.join(","));
    update(
        job,
        &[
            &format!("NumNodes={count}-{count}"),
            &format!("ReqNodeList={nodes}"),
            &format!("AdminComment={decision}"),
        ],
    )
    .await?;
    run("scontrol", &["release", &job.to_string()]).await.map(drop)
}

/// Holds a job again, and takes its nodes back.
///
/// # Errors
///
/// [`Trouble`], for instance if the job has just started.
pub async fn take_back(job: u32) -> Result<(), Trouble> {
    run("scontrol", &["hold", &job.to_string()]).await?;
    update(job, &["NumNodes=1", "ReqNodeList=", "AdminComment="]).await
}

/// Records a decision.
///
/// # Errors
///
/// [`Trouble`].
pub async fn note(job: u32, decision: &Decision) -> Result<(), Trouble> {
    update(job, &[&format!("AdminComment={decision}")]).await
}

async fn update(job: u32, changes: &[&str]) -> Result<(), Trouble> {
    let job = format!("JobId={job}");
    run("scontrol", &[&["update", &job], changes].concat()).await.map(drop)
}

/// Runs a command and returns its output.
async fn run(program: &'static str, args: &[&str]) -> Result<String, Trouble> {
    let failed = |reason: String| {
        let command = format!("{program} {}", args.join(" "));
        Trouble::Failed { command, reason }
    };
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Trouble::Start { program, error })?;
    let (Some(out), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
        unreachable!("both are piped");
    };
    let (mut text, mut complaint) = (Vec::new(), Vec::new());
    let (mut out, mut errors) = (out.take(LONGEST), errors.take(64 << 10));
    let read = async {
        tokio::try_join!(out.read_to_end(&mut text), errors.read_to_end(&mut complaint))?;
        child.wait().await
    };
    let status = match tokio::time::timeout(PATIENCE, read).await {
        Ok(status) => status.map_err(|error| failed(error.to_string()))?,
        Err(_) => return Err(failed(format!("no answer within {PATIENCE:?}"))),
    };
    if status.success() {
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    let complaint = String::from_utf8_lossy(&complaint);
    let first = complaint.lines().map(str::trim).find(|line| !line.is_empty());
    Err(failed(first.map_or_else(|| status.to_string(), str::to_owned)))
}
