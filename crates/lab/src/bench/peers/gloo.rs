//! Gloo, through PyTorch: one process per host, over TCP.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};

use super::binding::Binding;
use super::network::{PeerHosts, outputs};
use super::{Case, Took, write};

const PROGRAM: &str = include_str!("../../../peers/gloo.py");

/// The port at which rank 0 tells the others where all are.
const PORT: u16 = 29_500;

/// A Python interpreter with PyTorch.
pub(super) struct Gloo {
    python: PathBuf,
    program: PathBuf,
}

impl Gloo {
    /// Checks the interpreter and writes the program into a directory.
    ///
    /// # Errors
    /// Why Gloo cannot be measured.
    pub(super) fn prepare(directory: &Path, python: &Path) -> Result<Self, String> {
        let hint = "install torch from PyPI, or name another interpreter with --python";
        let name = python.display();
        let test = "import torch, torch.distributed as d; assert d.is_gloo_available()";
        let tried = Command::new(python).args(["-c", test]).output();
        let tried = tried.map_err(|error| format!("cannot start {name} ({error}); {hint}"))?;
        if !tried.status.success() {
            let errors = String::from_utf8_lossy(&tried.stderr);
            let last = errors.lines().last().unwrap_or_default();
            return Err(format!("{name} cannot import torch ({last}); {hint}"));
        }
        let program = directory.join("gloo.py");
        write(&program, PROGRAM)?;
        Ok(Self { python: python.to_owned(), program })
    }

    /// Sums for about this many seconds.
    ///
    /// # Errors
    /// If it fails, a sum is wrong, or `stop` is raised.
    pub(super) fn measure(
        &self,
        case: Case,
        binding: Binding,
        seconds: f64,
        stop: &AtomicBool,
    ) -> Result<Took> {
        let cores = binding.cores(case.workers)?;
        let network = PeerHosts::new(case)?;
        let (_, first) = network.workers().next().context("a case has workers")?;
        let mut processes = Vec::new();
        for (rank, (host, _)) in network.workers().enumerate() {
            let mut command = Command::new(&self.python);
            command.arg(&self.program);
            command.args([rank.to_string(), case.workers.to_string(), format!("{first}:{PORT}")]);
            command.args([case.elements().to_string(), seconds.to_string()]);
            command.args(cores.as_ref().map(|cores| cores[rank].to_string()));
            command.env("GLOO_SOCKET_IFNAME", "eth0");
            processes.push(network.spawn(&host, command)?);
        }
        let outputs = outputs(&processes, stop)?;
        let ranks: Result<Vec<Took>> = outputs.iter().map(|output| Took::parse(output)).collect();
        Took::of_ranks(&ranks?)
    }
}
