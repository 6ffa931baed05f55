//! Users' commands: their environment, and the end of all that they have started.

use std::fs;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{AccessFlags, Pid, access};
use tributary_api::placement::v1;

use crate::job::{Exit, Outcome, TaskId};

/// Ports at which the first worker of a job meets the others: below those that the kernel gives out,
/// and below ours.
const PORTS: (u32, u32) = (20_000, 9_000);

/// Has the key of a job, for a worker of ours or of a command.
pub(super) const JOB_KEY: &str = "TRIBUTARY_JOB_KEY";

/// How often processes are killed that start others meanwhile, and the pause in between.
const ROUNDS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// What a command finds in its environment: its GPUs; the variables of torchrun, which also uses
/// `PET_*` as its options; and those with which `tributary worker` or a PyTorch group takes part in the job.
pub(super) fn variables(
    start: &v1::Start,
    task: TaskId,
    devices: &[u32],
) -> Vec<(&'static str, String)> {
    let alone = "127.0.0.1".to_owned();
    let master = start.part.as_ref().map_or(alone, |_| start.first_address.clone());
    let port = (PORTS.0 + task.job % PORTS.1).to_string();
    let devices: Vec<String> = devices.iter().map(u32::to_string).collect();
    let mut variables = vec![
        ("CUDA_VISIBLE_DEVICES", devices.join(",")),
        ("MASTER_ADDR", master.clone()),
        ("MASTER_PORT", port.clone()),
        ("PET_MASTER_ADDR", master),
        ("PET_MASTER_PORT", port),
        ("PET_NNODES", start.workers.len().to_string()),
        ("PET_NODE_RANK", task.worker.to_string()),
        ("PET_NPROC_PER_NODE", devices.len().to_string()),
        ("TRIBUTARY_ATTEMPT", task.attempt.to_string()),
    ];
    if let Some(v1::Part { job_id, key, server }) = &start.part {
        variables.extend([
            ("TRIBUTARY_JOB", job_id.to_string()),
            (JOB_KEY, key.clone()),
            ("TRIBUTARY_WORKERS", start.workers.join(",")),
            ("TRIBUTARY_WORKER", task.worker.to_string()),
            ("TRIBUTARY_SERVER", server.clone()),
        ]);
    }
    variables
}

/// Checks that a command can run in a directory. Otherwise, its start fails as if there were no such program.
///
/// # Errors
///
/// The problem, and how to fix it.
pub(super) fn enter(directory: &Path) -> Result<(), String> {
    let name = directory.display();
    let fix = "create it on each server, or name another with --chdir";
    match fs::metadata(directory) {
        Ok(found) if !found.is_dir() => return Err(format!("{name} is not a directory; {fix}")),
        Ok(_) => {}
        Err(error) => return Err(format!("{name}: {error}; {fix}")),
    }
    access(directory, AccessFlags::X_OK).map_err(|error| format!("{name}: {error}; {fix}"))
}

/// The variable that all commands of an agent have.
pub(super) fn agent_mark(directory: &Path) -> String {
    format!("TRIBUTARY_AGENT={}", directory.display())
}

/// The variable that a command has alone.
pub(super) fn task_mark(task: TaskId) -> String {
    format!("TRIBUTARY_TASK={}", words(task))
}

/// The name of the file for the output of a command.
pub(super) fn log_name(task: TaskId) -> PathBuf {
    format!("job-{}.log", words(task)).into()
}

/// The most bytes of a command's output in a message.
const LOG_PART: u64 = 64 << 10;

/// Reads a part of what a command has written.
pub(super) fn log_part(directory: &Path, wanted: v1::ReadLog) -> v1::LogPart {
    let v1::ReadLog { ticket, id, from } = wanted;
    let read = TaskId::try_from(id).map_err(io::Error::other).and_then(|task| {
        // A command can put something else in its place.
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).custom_flags(flags.bits());
        let mut file = options.open(directory.join(log_name(task)))?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("the log is not a file"));
        }
        file.seek(io::SeekFrom::Start(from))?;
        let mut data = Vec::new();
        file.take(LOG_PART).read_to_end(&mut data)?;
        Ok(v1::LogResponse { data, size: found.len(), attempt: task.attempt })
    });
    match read {
        Ok(log) => v1::LogPart { ticket, log: Some(log), problem: String::new() },
        Err(error) => {
            let problem = match error.kind() {
                io::ErrorKind::NotFound => {
                    "the command has not started, or its log was removed".into()
                }
                _ => error.to_string(),
            };
            v1::LogPart { ticket, log: None, problem }
        }
    }
}

/// The name of the socket at which a process of ours serves its metrics.
pub(super) fn socket_name(task: TaskId) -> PathBuf {
    format!("job-{}.sock", words(task)).into()
}

fn words(TaskId { job, attempt, worker }: TaskId) -> String {
    format!("{job}-{attempt}-{worker}")
}

/// How a command ended.
pub(super) fn exit(status: io::Result<ExitStatus>, log: &Path) -> Exit {
    let output = format!("output in {}", log.display());
    match status {
        Ok(status) if status.success() => {
            Exit { outcome: Outcome::Success, detail: output, values: 0, verified: 0 }
        }
        Ok(status) => Exit::failed(format!("it ended with {status}; {output}")),
        Err(error) => Exit::failed(format!("it cannot be waited for: {error}")),
    }
}

/// Kills all processes whose environment has all of these variables, until there are none.
pub(super) fn end_marked(marks: &[String]) {
    for _ in 0..ROUNDS {
        let found = marked(marks);
        if found.is_empty() {
            return;
        }
        for process in found {
            // It may have ended.
            let _ = kill(process, Signal::SIGKILL);
        }
        std::thread::sleep(PAUSE);
    }
    tracing::warn!("processes with {} in their environment cannot be ended", marks.join(" "));
}

/// The processes whose environment has all of these variables, except this one.
fn marked(marks: &[String]) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let process = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        // It cannot be read for other users' processes, and is empty for dead ones.
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let has =
            |mark: &String| environment.split(|&byte| byte == 0).any(|one| one == mark.as_bytes());
        let is_other = id.cast_unsigned() != std::process::id();
        (is_other && marks.iter().all(has)).then(|| Pid::from_raw(id))
    };
    entries.filter_map(process).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn start() -> v1::Start {
        let part = v1::Part { job_id: 7, key: "00ff".into(), server: "w2".into() };
        let workers = vec!["w2".into(), "w3".into()];
        let first_address = "10.0.1.2".into();
        v1::Start { workers, first_address, part: Some(part), gpus: 2, ..v1::Start::default() }
    }

    fn value(variables: &[(&str, String)], name: &str) -> String {
        let found = variables.iter().find(|(other, _)| *other == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.clone()
    }

    #[test]
    fn a_worker_finds_its_gpus_and_the_others() {
        let task = TaskId { job: 3, attempt: 1, worker: 1 };
        let variables = variables(&start(), task, &[0, 2]);
        for (name, expected) in [
            ("CUDA_VISIBLE_DEVICES", "0,2"),
            ("MASTER_ADDR", "10.0.1.2"),
            ("MASTER_PORT", "20003"),
            ("PET_NNODES", "2"),
            ("PET_NODE_RANK", "1"),
            ("TRIBUTARY_ATTEMPT", "1"),
            ("PET_NPROC_PER_NODE", "2"),
            ("TRIBUTARY_JOB", "7"),
            ("TRIBUTARY_JOB_KEY", "00ff"),
            ("TRIBUTARY_WORKERS", "w2,w3"),
            ("TRIBUTARY_WORKER", "1"),
            ("TRIBUTARY_SERVER", "w2"),
        ] {
            assert_eq!(value(&variables, name), expected, "{name}");
        }
    }

    #[test]
    fn a_job_on_one_server_meets_itself() {
        let task = TaskId { job: 3, attempt: 1, worker: 0 };
        let variables = variables(&v1::Start { part: None, ..start() }, task, &[1]);
        assert_eq!(value(&variables, "MASTER_ADDR"), "127.0.0.1");
        for name in ["TRIBUTARY_JOB", "TRIBUTARY_JOB_KEY"] {
            assert!(!variables.iter().any(|(other, _)| *other == name), "it sends nothing");
        }
    }

    #[test]
    fn processes_that_left_the_group_are_ended() {
        let mark = format!("TRIBUTARY_TASK=test-{}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut child = Command::new("setsid")
            .args(["--fork", "sh", "-c", "sleep 1000 & sleep 1000"])
            .env(name, value)
            .spawn()
            .unwrap();
        child.wait().unwrap();
        let marks = [mark.clone()];
        while marked(&marks).len() < 3 {
            std::thread::sleep(PAUSE);
        }
        assert_eq!(marked(&[mark, "OTHER=1".into()]), [], "all variables count");
        end_marked(&marks);
        assert_eq!(marked(&marks), []);
    }
}
