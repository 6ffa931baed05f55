//! Ensures one process per part of a job on an interface: two would both answer.
//!
//! A claim is a Unix socket bound to an abstract name. The kernel keeps such names per network
//! namespace, as it does interfaces, and frees them whenever the process ends.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use anyhow::{Context, Result, bail};
use tributary_model::JobSpec;

/// Claims a part (`worker`, `parameter server`, `reminder agent`) of jobs on an interface until the
/// returned value is dropped.
///
/// # Errors
/// If another process has claimed one of them.
pub fn claim<'a>(
    interface: &str,
    part: &str,
    jobs: impl IntoIterator<Item = &'a JobSpec>,
) -> Result<Vec<UnixListener>> {
    let one = |job: &JobSpec| {
        let name = format!("tributary/{interface}/{part}/{}", job.id);
        let bound = SocketAddr::from_abstract_name(&name)
            .and_then(|address| UnixListener::bind_addr(&address));
        match bound {
            Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
                "another process is the {part} of job {} (ID {}) on network interface \
                 `{interface}`; end it first (`ss -xlp` shows it as `@{name}`)",
                job.name,
                job.id
            ),
            bound => bound.with_context(|| format!("cannot claim `@{name}`")),
        }
    };
    jobs.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_ends_with_its_holder_and_excludes_only_the_same_part() {
        let file = "[topology]\nkind = \"star\"\n[[job]]\nworkers = 1\n[[job]]\nworkers = 1\n";
        let scenario = tributary_model::jobfile::parse(file, "claim.toml").unwrap();
        let [first, second] = &scenario.jobs[..] else { unreachable!("two jobs") };
        // A unique name, because other tests run at the same time.
        let interface = format!("test{}", std::process::id());
        let held = claim(&interface, "worker", [first]).unwrap();
        let error = claim(&interface, "worker", [second, first]).unwrap_err().to_string();
        assert!(error.contains("the worker of job") && error.contains(&interface), "{error}");
        for (interface, part, job) in [
            (interface.as_str(), "worker", second),
            (interface.as_str(), "parameter server", first),
            ("test-other", "worker", first),
        ] {
            claim(interface, part, [job]).unwrap();
        }
        drop(held);
        claim(&interface, "worker", [first]).unwrap();
    }
}
