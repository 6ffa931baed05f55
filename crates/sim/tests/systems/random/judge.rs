//! Runs a case and says whether everything held that must.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use tributary_controller::outcomes::Outcome as Fate;
use tributary_controller::programs::Source;
use tributary_jobfile::{Preemption, Scenario, SwitchSettings};
use tributary_sim::{Act, Chart, Outcome, Program, Run};

use super::case::Case;
use crate::exact::check_sums;

/// What did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    /// Of which invariant; empty if it is something else.
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

/// A switch program, compiled once for each setting: that takes longer than many a run.
pub(crate) struct Judge {
    source: Source,
    programs: Mutex<HashMap<(u32, u32, Preemption), Arc<Program>>>,
}

impl Judge {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, programs: Mutex::default() }
    }

    fn program(&self, settings: &SwitchSettings) -> Arc<Program> {
        let key = (settings.pool, settings.ecn_threshold, settings.preemption);
        let mut programs = self.programs.lock().unwrap();
        let program = programs
            .entry(key)
            .or_insert_with(|| Arc::new(Program::compile(&self.source, settings).unwrap()));
        Arc::clone(program)
    }

    /// Runs a case.
    pub(crate) fn run(&self, case: &Case, trace: bool) -> Outcome {
        self.run_scenario(case, &case.scenario(), trace)
    }

    fn run_scenario(&self, case: &Case, scenario: &Scenario, trace: bool) -> Outcome {
        let program = self.program(&scenario.switch);
        let mut run = Run::start(scenario, &program, case.inputs(), &case.options(trace)).unwrap();
        run.prioritize(case.priorities());
        for (time, act) in &case.acts {
            run.at(*time, *act);
        }
        while run.step().unwrap() {}
        run.finish().unwrap()
    }

    /// Whether everything holds in a case.
    pub(crate) fn judge(&self, case: &Case) -> Result<Outcome, Violation> {
        let scenario = case.scenario();
        let run = catch_unwind(AssertUnwindSafe(|| self.run_scenario(case, &scenario, false)));
        let violation = |invariant, what| Violation { invariant, what };
        let outcome = run.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            violation("", format!("a panic: {}", text.unwrap_or("of another kind")))
        })?;
        if let Err(difference) = check_sums(&scenario, &case.inputs(), &outcome.sums, |_| true) {
            return Err(violation("I1, I2, I5", difference));
        }
        if !outcome.leaks.is_empty() {
            let what = format!("aggregators held after the sweep: {:?}", outcome.leaks);
            return Err(violation("I4", what));
        }
        if outcome.left_behind > 0 {
            return Err(violation("I3, I4", format!("{} aggregators held", outcome.left_behind)));
        }
        let everything = outcome.outcomes.iter().flatten().chain(&outcome.unattributed);
        let malformed: u64 = everything.map(|at| at[Fate::Malformed].packets).sum();
        if malformed > 0 {
            return Err(violation("", format!("{malformed} malformed packets")));
        }
        let ended = |job: usize| case.acts.iter().any(|(_, act)| *act == Act::End(job));
        if outcome.outstanding > 0 {
            let what =
                format!("{} sums did not come in: {:?}", outcome.outstanding, outcome.stalls);
            return Err(violation("I7", what));
        }
        // An agent that is replaced does not know whom the one before it has dismissed.
        let replaced = |act: &Act| matches!(act, Act::StartServer(_) | Act::StartAgent(_));
        let replaced = case.acts.iter().any(|(_, act)| replaced(act));
        if !outcome.complete || outcome.undismissed > 0 && !replaced {
            return Err(violation("I7 (leaving)", "not every worker could go".into()));
        }
        check_sums(&scenario, &case.inputs(), &outcome.sums, ended)
            .map_err(|difference| violation("I7", difference))?;
        Ok(outcome)
    }

    /// The course of a case.
    pub(crate) fn chart(&self, case: &Case, title: &str) -> Option<Chart> {
        let scenario = case.scenario();
        let run = catch_unwind(AssertUnwindSafe(|| self.run_scenario(case, &scenario, true)));
        let outcome = run.ok()?;
        let topology = &scenario.topology;
        let workers = scenario.jobs.iter().flat_map(|job| &job.workers);
        let servers = scenario.jobs.iter().flat_map(|job| job.ps.iter().chain(&job.agent));
        let switches = topology.switches.iter().map(|switch| switch.name.as_str());
        let name = |host: &tributary_jobfile::HostId| topology.host(*host).name.as_str();
        let mut columns: Vec<&str> = workers.map(name).collect();
        columns.extend(switches);
        for server in servers.map(name) {
            if !columns.contains(&server) {
                columns.push(server);
            }
        }
        Some(Chart::new(title, &columns, &outcome.trace?))
    }
}
