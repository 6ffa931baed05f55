//! OpenMPI: one rank per host, over TCP.
//!
//! `mpirun` runs on a host of its own and starts its daemon on every other host through a script
//! that enters the host's network namespace, as it would through ssh. To OpenMPI, the hosts are
//! different machines, so that ranks use no shared memory. All of its processes are in one process
//! namespace and end with `mpirun`, also if that is killed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};

use super::binding::Binding;
use super::network::{PeerHosts, STARTER, outputs};
use super::{Case, Took, write};

const PROGRAM: &str = include_str!("../../../peers/allreduce.c");
const AGENT: &str = include_str!("../../../peers/agent.sh");

/// The Debian packages.
const PACKAGES: &str = "install Debian's openmpi-bin and libopenmpi-dev";

/// An algorithm of `MPI_Allreduce`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Algorithm {
    /// Chosen by OpenMPI for each number of ranks and size.
    #[default]
    Default,
    RecursiveDoubling,
    Ring,
    SegmentedRing,
    Rabenseifner,
}

impl Algorithm {
    const ALL: [Self; 5] = [
        Self::Default,
        Self::RecursiveDoubling,
        Self::Ring,
        Self::SegmentedRing,
        Self::Rabenseifner,
    ];

    /// Its number in `coll_tuned_allreduce_algorithm`.
    fn number(self) -> Option<u8> {
        match self {
            Self::Default => None,
            Self::RecursiveDoubling => Some(3),
            Self::Ring => Some(4),
            Self::SegmentedRing => Some(5),
            Self::Rabenseifner => Some(6),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default algorithm",
            Self::RecursiveDoubling => "recursive doubling",
            Self::Ring => "ring",
            Self::SegmentedRing => "segmented ring",
            Self::Rabenseifner => "Rabenseifner",
        }
    }
}

/// How to run it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Setting {
    algorithm: Algorithm,
    /// Whether ranks that wait give the processor to others (`mpi_yield_when_idle`).
    yields: bool,
    binding: Binding,
}

impl Setting {
    /// Its algorithm with ranks that are bound to cores.
    pub(super) fn bound(self) -> Vec<Self> {
        let with = |yields| Self { yields, binding: Binding::Spread, ..self };
        [false, true].map(with).into()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.name())?;
        write!(f, "{}{}", if self.yields { ", yielding" } else { "" }, self.binding)
    }
}

/// All settings to try whose ranks may run on all cores.
pub(super) fn settings() -> Vec<Setting> {
    let with = |yields| {
        Algorithm::ALL.map(|algorithm| Setting { algorithm, yields, binding: Binding::Free })
    };
    [with(false), with(true)].concat()
}

/// An installed OpenMPI, and the compiled program.
pub(super) struct OpenMpi {
    program: PathBuf,
    agent: PathBuf,
    /// For files of its runs.
    directory: PathBuf,
}

impl OpenMpi {
    /// Compiles the program into a directory.
    ///
    /// # Errors
    /// Why OpenMPI cannot be measured.
    pub(super) fn prepare(directory: &Path) -> Result<Self, String> {
        for tool in ["mpicc", "mpirun"] {
            if tributary_base::programs::on_path(tool).is_none() {
                return Err(format!("{tool} is not on the PATH; {PACKAGES}"));
            }
        }
        for tool in ["unshare", "nsenter"] {
            if tributary_base::programs::on_path(tool).is_none() {
                return Err(format!("{tool} is not on the PATH; install Debian's util-linux"));
            }
        }
        let (source, program) = (directory.join("allreduce.c"), directory.join("allreduce"));
        write(&source, PROGRAM)?;
        let agent = directory.join("agent.sh");
        write(&agent, AGENT)?;
        let compiled =
            Command::new("mpicc").arg("-O2").arg("-o").arg(&program).arg(&source).output();
        let compiled = compiled.map_err(|error| format!("cannot start mpicc: {error}"))?;
        if !compiled.status.success() {
            let errors = String::from_utf8_lossy(&compiled.stderr);
            let first = errors.lines().next().unwrap_or_default();
            return Err(format!("mpicc cannot compile its program ({first}); {PACKAGES}"));
        }
        Ok(Self { program, agent, directory: directory.to_owned() })
    }

    /// Sums for about this many seconds.
    ///
    /// # Errors
    /// If it fails, a sum is wrong, or `stop` is raised.
    pub(super) fn measure(
        &self,
        case: Case,
        setting: Setting,
        seconds: f64,
        stop: &AtomicBool,
    ) -> Result<Took> {
        let network = PeerHosts::new(case)?;
        let mut hosts = Vec::new();
        let mut namespaces = Vec::new();
        for (host, address) in network.workers() {
            hosts.push(format!("{address}:1"));
            namespaces.push(format!("{address}={}", network.namespace(&host)?));
        }
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "mpirun", "--allow-run-as-root"]);
        command.args(["-np", &case.workers.to_string(), "--host", &hosts.join(",")]);
        // Every host has one rank, which OpenMPI would bind to the same core. The program itself binds
        // ranks to different ones.
        command.args(["--bind-to", "none"]);
        let mut set = |name: &str, value: &str| {
            command.args(["--mca", name, value]);
        };
        set("plm", "rsh");
        set("plm_rsh_agent", &format!("sh {}", self.agent.display()));
        set("plm_rsh_no_tree_spawn", "1");
        set("pml", "ob1");
        set("btl", "tcp,self");
        set("btl_tcp_if_include", "eth0");
        set("oob_tcp_if_include", "eth0");
        if let Some(number) = setting.algorithm.number() {
            set("coll_tuned_use_dynamic_rules", "1");
            set("coll_tuned_allreduce_algorithm", &number.to_string());
        }
        if setting.yields {
            set("mpi_yield_when_idle", "1");
        }
        command.arg(&self.program).args([case.elements().to_string(), seconds.to_string()]);
        if let Some(cores) = setting.binding.cores(case.workers)? {
            let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
            command.arg(cores.join(","));
        }
        let session = tempfile::tempdir_in(&self.directory)?;
        command.env("TMPDIR", session.path()).env("TRIBUTARY_HOSTS", namespaces.join(" "));
        let process = network.spawn(STARTER, command)?;
        let outputs = outputs(&[process], stop)?;
        Took::parse(outputs.first().context("it is one process")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_tried_with_and_without_yielding() {
        let names: Vec<String> = settings().iter().map(Setting::to_string).collect();
        assert_eq!(names.len(), 10);
        assert_eq!(names[0], "default algorithm");
        assert_eq!(names[9], "Rabenseifner, yielding");
        let bound: Vec<String> = settings()[1].bound().iter().map(Setting::to_string).collect();
        assert_eq!(
            bound,
            ["recursive doubling, bound to cores", "recursive doubling, yielding, bound to cores"]
        );
    }
}
