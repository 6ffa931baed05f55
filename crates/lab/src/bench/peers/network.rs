//! The network of the peers: hosts around a bridge of the kernel, and the processes on them.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tributary_run::testbed::{
    Host, Link, LinkEnd, Output, Process, Stream, SwitchNode, Testbed, Topology,
};

use super::{Case, refuse_stop};

/// Prefix length of all addresses.
pub(super) const PREFIX: u8 = 24;

/// The host on which peers with a starter, as OpenMPI, have it. It has no worker.
pub(super) const STARTER: &str = "starter";

/// Time limit of a run, so that a peer that hangs does not stop the measurement.
const LIMIT: Duration = Duration::from_secs(180);

/// Time for processes to end by themselves before they are killed.
const GRACE: Duration = Duration::from_secs(5);

/// Interval of checks for interruption.
const LOOK: Duration = Duration::from_millis(50);

/// Hosts for the workers of a case and for the starter.
pub(super) struct PeerHosts {
    testbed: Testbed,
    workers: u32,
}

impl PeerHosts {
    pub(super) fn new(case: Case) -> Result<Self> {
        let Case { mtu, workers, .. } = case;
        let workers_and_starter = (0..workers).map(name).chain([STARTER.to_owned()]);
        let hosts: Vec<Host> = workers_and_starter
            .zip(1_u8..)
            .map(|(name, number)| Host {
                name,
                mac: [2, 0, 0, 0, 0, number],
                ip: Ipv4Addr::new(10, 0, 0, number),
                prefix: PREFIX,
            })
            .collect();
        let link = |(host, port): (&Host, u16)| Link {
            a: LinkEnd::new(&host.name, 0),
            b: LinkEnd::new("bridge", port),
            mtu,
        };
        let links = hosts.iter().zip(0..).map(link).collect();
        let switches = vec![SwitchNode { name: "bridge".to_owned() }];
        let testbed = Testbed::build_bridged(&Topology { hosts, switches, links })?;
        Ok(Self { testbed, workers })
    }

    /// The hosts of the workers and their addresses.
    pub(super) fn workers(&self) -> impl Iterator<Item = (String, Ipv4Addr)> {
        (0..self.workers)
            .zip(1..)
            .map(|(worker, number)| (name(worker), Ipv4Addr::new(10, 0, 0, number)))
    }

    /// A path to a host's network namespace.
    pub(super) fn namespace(&self, host: &str) -> Result<String> {
        Ok(self.testbed.namespace_path(host)?.display().to_string())
    }

    pub(super) fn spawn(&self, host: &str, command: Command) -> Result<Process> {
        Ok(self.testbed.spawn(host, command, Output::Keep)?)
    }
}

fn name(worker: u32) -> String {
    format!("w{}", worker + 1)
}

/// Waits until all processes have ended. Returns their standard outputs.
///
/// # Errors
/// The first failure of a process; all others are ended then.
pub(super) fn outputs(processes: &[Process], stop: &AtomicBool) -> Result<Vec<String>> {
    let ended = all_end(processes, stop);
    if ended.is_err() {
        // A starter ends after all that it has started, so their files can be removed then.
        processes.iter().for_each(Process::ask_to_end);
        for process in processes {
            process.end(GRACE).context("cannot end a process")?;
        }
    }
    ended?;
    Ok(processes.iter().map(|process| process.output(Stream::Out)).collect())
}

fn all_end(processes: &[Process], stop: &AtomicBool) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        refuse_stop(stop)?;
        let mut running = None;
        for process in processes {
            match process.wait(Some(Duration::ZERO))? {
                None => running = Some(process),
                Some(status) if status.success() => {}
                Some(status) => {
                    let errors = process.output(Stream::Err);
                    bail!("{} ended with {status}: {}", process.program(), essence(&errors));
                }
            }
        }
        let Some(running) = running else { return Ok(()) };
        if Instant::now() >= deadline {
            bail!("{} still runs after {LIMIT:?}", running.program());
        }
        running.wait(Some(LOOK))?;
    }
}

/// The line of an error output that is most likely its cause.
fn essence(errors: &str) -> &str {
    let own = errors.lines().find_map(|line| line.strip_prefix("error: "));
    // OpenMPI frames its messages with lines of dashes.
    let is_text = |line: &&str| line.chars().any(char::is_alphanumeric);
    own.or_else(|| errors.lines().rfind(is_text)).unwrap_or("it printed no error")
}

#[cfg(test)]
mod tests {
    use super::essence;

    #[test]
    fn the_cause_of_a_failure_is_found() {
        assert_eq!(
            essence("a\nerror: a sum is wrong\n-----\nmpirun: a rank failed\n"),
            "a sum is wrong"
        );
        assert_eq!(essence("Traceback:\nImportError: no torch\n\n----\n"), "ImportError: no torch");
        assert_eq!(essence("-----\n\n"), "it printed no error");
    }
}
