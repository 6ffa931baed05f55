//! Runs a case and checks the invariants.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use tributary_controller::outcomes::{Outcome as Fate, Outcomes};
use tributary_controller::programs::Source;
use tributary_model::{Preemption, Protocol, Scenario};
use tributary_p4::Architecture;
use tributary_sim::{Act, Chart, Options, Outcome, Program, Run};

use super::case::Case;
use super::liveness::{self, Record, Wait, Watch};
use crate::exact::check_sums;

/// A violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    /// The violated invariant; empty for other failures.
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

/// The switch programs, compiled once per setting, because that takes longer than many runs.
pub(crate) struct Judge {
    architecture: Architecture,
    /// All files of the programs.
    files: Vec<(String, String)>,
    programs: Mutex<HashMap<Settings, Arc<Program>>>,
    /// Replaces settings of endpoints that the bound of liveness takes for granted.
    tamper: fn(&mut Scenario, &mut Options),
}

/// The settings of a compiled program.
type Settings = (Protocol, u32, u32, Preemption);

impl Judge {
    /// With the unchanged programs for v1model.
    pub(crate) fn new() -> Self {
        Self::of(Architecture::V1model)
    }

    /// With the unchanged programs for an architecture.
    pub(crate) fn of(architecture: Architecture) -> Self {
        let files = Source::built_in_for(architecture, "esa").unwrap().files;
        Self { architecture, files, programs: Mutex::default(), tamper: |_, _| () }
    }

    /// With other settings of endpoints than the bound of liveness expects.
    pub(crate) fn of_tampered(tamper: fn(&mut Scenario, &mut Options)) -> Self {
        Self { tamper, ..Self::new() }
    }

    /// With one place in one file replaced.
    pub(crate) fn of_broken(file: &str, right: &str, wrong: &str) -> Self {
        let mut judge = Self::new();
        let (_, text) = judge.files.iter_mut().find(|(path, _)| path == file).unwrap();
        assert_eq!(text.matches(right).count(), 1, "{file} has changed");
        *text = text.replace(right, wrong);
        judge
    }

    fn program(&self, case: &Case, scenario: &Scenario) -> Arc<Program> {
        let settings = &scenario.network.switch;
        let key = (case.protocol, settings.pool, settings.ecn_threshold, settings.preemption);
        let mut programs = self.programs.lock().unwrap();
        let program = programs.entry(key).or_insert_with(|| {
            let main = format!("{}/{}.p4", self.architecture, case.protocol.name());
            let source = Source { main, files: self.files.clone() };
            Arc::new(Program::compile(&source, settings).unwrap())
        });
        Arc::clone(program)
    }

    /// Runs a case.
    pub(crate) fn run(&self, case: &Case, trace: bool) -> Outcome {
        self.run_scenario(case, &case.scenario(), trace).0
    }

    /// Returns the outcome, and what matters for the bound of liveness.
    fn run_scenario(&self, case: &Case, scenario: &Scenario, trace: bool) -> (Outcome, Record) {
        let program = self.program(case, scenario);
        let (mut scenario, mut options) = (scenario.clone(), case.options(trace));
        (self.tamper)(&mut scenario, &mut options);
        let scenario = &scenario;
        let mut run = Run::start(scenario, &program, case.inputs(), &options).unwrap();
        run.prioritize(case.priorities());
        let patches = case.optical.iter().flat_map(|optical| &optical.patches);
        run.patches = patches.map(|(_, circuits)| circuits.clone()).collect();
        for (time, act) in case.all_acts(scenario) {
            run.at(time, act);
        }
        let mut watch = Watch::new(scenario);
        while run.step().unwrap() {
            watch.look(&run.system.network);
        }
        let record = watch.record();
        (run.finish().unwrap(), record)
    }

    /// Runs a case and checks it.
    pub(crate) fn judge(&self, case: &Case) -> Result<Outcome, Violation> {
        self.judge_waits(case).map(|(outcome, _)| outcome)
    }

    /// The same; also returns the tensor that took the largest part of its bound of liveness.
    pub(crate) fn judge_waits(&self, case: &Case) -> Result<(Outcome, Option<Wait>), Violation> {
        let scenario = case.scenario();
        let run = catch_unwind(AssertUnwindSafe(|| self.run_scenario(case, &scenario, false)));
        let violation = |invariant, what| Violation { invariant, what };
        let (outcome, record) = run.map_err(|panic| {
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
        // If a window is not larger than its segment, no packet comes too early.
        for job in (0..case.jobs.len()).filter(|job| case.is_local(*job)) {
            let early = |at: &Outcomes| at[Fate::Asynchronous].packets > 0;
            if outcome.outcomes[job].iter().any(early) {
                return Err(violation("", format!("job {job} has sent rounds too early")));
            }
        }
        let ended = |job: usize| case.acts.iter().any(|(_, act)| *act == Act::End(job));
        if outcome.outstanding > 0 {
            let what =
                format!("{} sums did not come in: {:?}", outcome.outstanding, outcome.stalls);
            return Err(violation("I7", what));
        }
        // A replacement agent does not know which workers its predecessor dismissed.
        let replaced = |act: &Act| matches!(act, Act::StartServer(_) | Act::StartAgent(_));
        let replaced = case.acts.iter().any(|(_, act)| replaced(act));
        if !outcome.complete || outcome.undismissed > 0 && !replaced {
            return Err(violation("I7 (leaving)", "not every worker could go".into()));
        }
        check_sums(&scenario, &case.inputs(), &outcome.sums, ended)
            .map_err(|difference| violation("I7", difference))?;
        let longest = liveness::check(case, &scenario, &outcome, &record)
            .map_err(|late| violation("I7 (in time)", late))?;
        Ok((outcome, longest))
    }

    /// The chart of a case.
    pub(crate) fn chart(&self, case: &Case, title: &str) -> Option<Chart> {
        let scenario = case.scenario();
        let run = catch_unwind(AssertUnwindSafe(|| self.run_scenario(case, &scenario, true)));
        let (outcome, _) = run.ok()?;
        let topology = &scenario.network.topology;
        let workers = scenario.jobs.iter().flat_map(|job| &job.workers);
        let servers = scenario.jobs.iter().flat_map(|job| job.ps.iter().chain(&job.agent));
        let switches = topology.switches.iter().map(|switch| switch.name.as_str());
        let name = |host: &tributary_model::HostId| topology.host(*host).name.as_str();
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
