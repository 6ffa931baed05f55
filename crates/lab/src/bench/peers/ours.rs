//! Our all-reduce: a switch, workers and perhaps a parameter server, one process per host.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use tributary_netio::device::Kind as Io;
use tributary_run::cores::Cores;
use tributary_worker::workload::need;

use super::{Case, SECONDS, Took};
use crate::bench::runs;

/// Rounds of a measurement, at least and at most.
const LEAST: u64 = 3;
const MOST: u64 = 100_000;

/// Rounds to warm up, at least. After the first one, workers compute the sum that they compare all
/// others with, and end at different times; the second one waits for the last.
const WARM_UP: u64 = 2;

/// Seconds to warm up. The switch translates its program to machine code meanwhile.
const WARM_UP_SECONDS: f64 = 1.0;

/// A protocol with its packets.
pub(super) struct Ours {
    name: &'static str,
    protocol: &'static str,
    values: u32,
    io: Io,
}

/// What is measured with an MTU.
pub(super) fn settings(mtu: u32, io: Io) -> Vec<Ours> {
    let mut all = vec![("ATP", "atp", 64), ("SwitchML", "switchml", 64)];
    all.extend([64, 256].map(|values| ("P4INC", "p4inc", values)));
    if mtu >= 9_000 {
        all.push(("P4INC", "p4inc", 2048));
    }
    all.into_iter().map(|(name, protocol, values)| Ours { name, protocol, values, io }).collect()
}

impl Ours {
    pub(super) fn name(&self) -> String {
        format!("{}, {} values", self.name, self.values)
    }

    /// Refuses a case that needs more memory than this machine has.
    ///
    /// # Errors
    /// How much it needs.
    pub(super) fn check_memory(&self, case: Case) -> Result<()> {
        let text = self.job_file(case, WARM_UP, LEAST, 1);
        need::check_run(&tributary_model::jobfile::parse(&text, "bench.toml")?, true)
    }

    /// Estimates the seconds of one all-reduce.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub(super) fn estimate(&self, case: Case, stop: &AtomicBool) -> Result<f64> {
        let rounds = ((4 << 20) / case.tensor_bytes).clamp(2, 500);
        Ok(self.run(case, rounds.max(WARM_UP), rounds, 1, stop)?.per_round())
    }

    /// Sums for about [`SECONDS`], if one all-reduce takes `estimate`.
    ///
    /// # Errors
    /// If it fails, a sum is wrong, or `stop` is raised.
    pub(super) fn measure(
        &self,
        case: Case,
        estimate: f64,
        seed: u32,
        stop: &AtomicBool,
    ) -> Result<Took> {
        let rounds = |seconds: f64| (seconds / estimate) as u64;
        let warm_up = rounds(WARM_UP_SECONDS).clamp(WARM_UP, MOST);
        self.run(case, warm_up, rounds(SECONDS).clamp(LEAST, MOST), seed, stop)
    }

    fn run(
        &self,
        case: Case,
        warm_up: u64,
        rounds: u64,
        seed: u32,
        stop: &AtomicBool,
    ) -> Result<Took> {
        let text = self.job_file(case, warm_up, rounds, seed);
        // Our switch is one more process than the peers have.
        let pin = Cores::available()?.count() > 1;
        let report = runs::in_namespaces(self.io, pin, &text, stop)?;
        let job = report.jobs.first().context("the file has one job")?;
        let workers = job.workers.iter().map(|worker| worker.processor_seconds);
        let switches = report.switches.iter().map(|switch| switch.cpu_seconds);
        let processor: Option<f64> =
            workers.chain(switches).chain([report.servers_cpu_seconds]).sum();
        Ok(Took {
            rounds,
            seconds: job.workers.iter().map(|worker| worker.reduce_seconds).fold(0.0, f64::max),
            processor: processor.context("the processor time of a process is not known")?,
        })
    }

    fn job_file(&self, case: Case, warm_up: u64, rounds: u64, seed: u32) -> String {
        let Self { protocol, values, .. } = *self;
        // Several times as many aggregators as slots, so that few fragments of ATP collide; fewer
        // with many values, to limit the memory.
        let [pool, slots] = if values > 256 { [512, 64] } else { [8192, 256] };
        let partitions = if protocol == "switchml" { "partitions = 1\n" } else { "" };
        format!(
            "seed = {seed}\ntimeout = \"30min\"\nworker_timeout = \"2min\"\n\
             [topology]\nkind = \"star\"\nworkers = {}\nmtu = {}\n\
             [protocol]\nkind = \"{protocol}\"\nvalues_per_packet = {values}\nslots = {slots}\n\
             [switch]\npool = {pool}\n{partitions}[[job]]\nname = \"bench\"\n\
             workload = {{ kind = \"random\", tensors = 1, repeat = {}, warm_up = {warm_up}, \
             elements = {}, verify = \"share\" }}\n",
            case.workers,
            case.mtu,
            warm_up + rounds,
            case.elements(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_settings_are_valid_job_files() {
        for mtu in [1_500, 9_000] {
            let settings = settings(mtu, Io::Gso);
            assert_eq!(settings.len(), if mtu == 9_000 { 5 } else { 4 });
            for ours in settings {
                for workers in [2, 32] {
                    let case = Case { mtu, workers, tensor_bytes: 64 << 10 };
                    let text = ours.job_file(case, 2, 3, 1);
                    let scenario = tributary_model::jobfile::parse(&text, "bench.toml").unwrap();
                    assert_eq!(scenario.jobs[0].workers.len(), workers as usize, "{text}");
                }
            }
        }
    }
}
