//! The execution engine alone: the programs without ports, queues and threads.
//!
//! Packets are sent kind by kind, each over all aggregators: a worker's packet that occupies an
//! empty aggregator, one that is added, one of another job that collides, one that completes the
//! sum, the result that frees the aggregator in ATP; with ESA also one that preempts. A packet's
//! time includes all its passes, and its egress if it has one. It is processor time of the thread,
//! so that other processes do not count. The programs take turns, so that the machine's other load
//! affects both.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tributary_controller::outcomes::{Outcome, Outcomes};
use tributary_controller::{Catalogue, entries};
use tributary_dataplane::{EgressInput, EngineKind, IngressInput, Instance, Packet, Verdict};
use tributary_model::{
    HostId, JobSpec, Scenario, SwitchId,
    plan::{self, Placement},
};
use tributary_p4runtime::p4::v1::Update;
use tributary_switch::{Forwarding, Switch, SwitchConfig};
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, Host, Kind, Rack, Sequence, emit_frame,
};

use super::{Spread, processor_time};
use crate::bench::{Args, Program};
use tributary_embedded::program;
use tributary_run::report::table;

/// Duration of a repetition.
const TIME: Duration = Duration::from_millis(500);

/// Number of aggregators.
const CELLS: u32 = 256;

/// A kind of packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Case {
    Absorb,
    Add,
    Collide,
    Complete,
    Result,
    Preempt,
}

impl Case {
    pub(super) const ALL: [Self; 6] =
        [Self::Absorb, Self::Add, Self::Collide, Self::Complete, Self::Result, Self::Preempt];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Absorb => "absorb",
            Self::Add => "add",
            Self::Collide => "collide",
            Self::Complete => "complete",
            Self::Result => "result",
            Self::Preempt => "preempt",
        }
    }
}

/// The packets of a fragment of three workers.
pub(super) fn fragment(program: Program) -> &'static [Case] {
    match program {
        Program::Atp => &[Case::Absorb, Case::Add, Case::Complete, Case::Result],
        Program::Esa => &[Case::Absorb, Case::Add, Case::Complete],
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    println!(
        "\nEngine alone, one core: millions a second, median (range) of {} repetitions",
        args.repeat
    );
    let mut programs = args.program.clone();
    programs.dedup();
    let names: Vec<String> =
        programs.iter().map(|program| format!("{program:?}").to_lowercase() + ".p4").collect();
    let mut header = vec!["values a packet", "packet"];
    header.extend(names.iter().map(String::as_str));
    if programs.len() == 2 {
        header.push("second / first");
    }
    let mut rows = table(&header);
    let values: &[u16] = if args.quick { &[64] } else { &[32, 64, 256, 2048] };
    // The cost of a packet that is added, by values per packet, for each program.
    let mut adding = vec![Vec::new(); programs.len()];
    for &values in values {
        let benches = programs.iter().map(|&program| Bench::new(program, values));
        let mut benches: Vec<Bench> = benches.collect::<Result<_>>()?;
        let mut costs: Vec<Vec<Costs>> = vec![Vec::new(); programs.len()];
        for repetition in 0..args.repeat as usize {
            for turn in 0..programs.len() {
                let which = (turn + repetition) % programs.len();
                costs[which].push(benches[which].measure());
            }
        }
        for (which, of_program) in costs.iter().enumerate() {
            adding[which].push((values, Spread::of(of_case(of_program, Case::Add)).median));
        }
        for case in Case::ALL {
            row(&mut rows, values, case.name(), &of_programs(&costs, case));
        }
        let whole = |(costs, program): (&Vec<Costs>, &Program)| -> Vec<f64> {
            let of_one = |costs: &Costs| fragment(*program).iter().map(|&c| costs.of(c)).sum();
            costs.iter().map(of_one).collect()
        };
        let whole: Vec<Vec<f64>> = costs.iter().zip(&programs).map(whole).collect();
        row(&mut rows, values, "fragment of 3 workers", &whole);
    }
    println!("{rows}");
    for (program, adding) in names.iter().zip(&adding) {
        if let [(few, cheap), .., (many, dear)] = adding[..] {
            let cost = (dear - cheap) / f64::from(many - few);
            println!("{program}: an added value costs {cost:.2} ns ({few} to {many} values).");
        }
    }
    Ok(())
}

fn of_programs(costs: &[Vec<Costs>], case: Case) -> Vec<Vec<f64>> {
    costs.iter().map(|costs| of_case(costs, case)).collect()
}

/// Nanoseconds of a case in all repetitions; empty if the program has no such packet.
fn of_case(costs: &[Costs], case: Case) -> Vec<f64> {
    costs.iter().map(|costs| costs.of(case)).filter(|nanos| nanos.is_finite()).collect()
}

/// A row with nanoseconds converted to millions per second.
fn row(rows: &mut comfy_table::Table, values: u16, name: &str, of_programs: &[Vec<f64>]) {
    let spreads: Vec<Option<Spread>> = of_programs
        .iter()
        .map(|nanos| nanos.iter().map(|nanos| 1e3 / nanos).collect::<Vec<f64>>())
        .map(|rates| (!rates.is_empty()).then(|| Spread::of(rates)))
        .collect();
    let text = |spread: &Option<Spread>| spread.map_or("–".to_owned(), |spread| spread.text(3));
    let mut cells = vec![values.to_string(), name.to_owned()];
    cells.extend(spreads.iter().map(text));
    if let [first, second] = &spreads[..] {
        let ratio = first.zip(*second).map(|(first, second)| second.median / first.median);
        cells.push(ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")));
    }
    rows.add_row(cells);
}

/// Time and packets by case.
#[derive(Clone, Copy, Default)]
pub(super) struct Costs([(Duration, u64); Case::ALL.len()]);

impl Costs {
    fn add(&mut self, case: Case, time: Duration, packets: u64) {
        let own = &mut self.0[case as usize];
        own.0 += time;
        own.1 += packets;
    }

    /// Nanoseconds per packet; NaN without packets.
    pub(super) fn of(&self, case: Case) -> f64 {
        let (time, packets) = self.0[case as usize];
        time.as_secs_f64() * 1e9 / packets as f64
    }
}

/// A packet of a fragment's life, with variable fragment and aggregator.
pub(super) struct Template {
    pub(super) case: Option<Case>,
    pub(super) port: u16,
    pub(super) frame: Vec<u8>,
}

/// The packets of a fragment's life, in order.
pub(super) fn templates(program: Program, scenario: &Scenario) -> Vec<Template> {
    steps(program, scenario)
        .into_iter()
        .filter_map(|Step { case, port, frames, .. }| {
            Some(Template { case, port, frame: frames.into_iter().next()? })
        })
        .collect()
}

/// Packets of one kind, one per aggregator.
struct Step {
    /// The measured case, if any.
    case: Option<Case>,
    /// The slot and the outcome under which they are counted.
    counted: (u16, Outcome),
    port: u16,
    frames: Vec<Vec<u8>>,
}

pub(super) struct Bench {
    switch: Switch,
    packet: Packet,
    /// Packets in order, repeated. The last step leaves the aggregators empty.
    steps: Vec<Step>,
    out: Vec<u8>,
}

impl Bench {
    pub(super) fn new(program: Program, values: u16) -> Result<Self> {
        let scenario = scenario(program, values, CELLS)?;
        let (switch, catalogue) = loaded(&scenario)?;
        let packet = switch.forwarding().expect("loaded").pipeline().new_packet();
        let steps = steps(program, &scenario);
        let mut bench = Self { switch, packet, steps, out: Vec::new() };
        bench.check(&catalogue)?;
        Ok(bench)
    }

    /// Selects the execution engine.
    pub(super) fn use_engine(&mut self, kind: EngineKind) {
        let forwarding = self.switch.forwarding_mut().expect("committed when it was made");
        forwarding.pipeline_mut().use_engine(kind);
    }

    /// Runs all steps once and checks that the packets have the expected outcomes.
    fn check(&mut self, catalogue: &Catalogue) -> Result<()> {
        for at in 0..self.steps.len() {
            let (job, outcome) = self.steps[at].counted;
            let before = self.count(catalogue, job, outcome)?;
            self.step(at, 0);
            let counted = self.count(catalogue, job, outcome)? - before;
            let case = self.steps[at].case;
            ensure!(
                counted == u64::from(CELLS),
                "step {at} ({case:?}): {counted} of {CELLS} packets were {}",
                outcome.name()
            );
        }
        Ok(())
    }

    fn count(&self, catalogue: &Catalogue, job: u16, outcome: Outcome) -> Result<u64> {
        let slot = Some(slot(job)?);
        let answer = self.switch.read(&Outcomes::request(catalogue, slot));
        let answer = answer.map_err(|error| anyhow!("{error}"))?;
        Ok(Outcomes::of(catalogue, slot, &answer)[outcome].packets)
    }

    pub(super) fn measure(&mut self) -> Costs {
        let mut costs = Costs::default();
        let start = Instant::now();
        while start.elapsed() < TIME {
            let time_us = start.elapsed().as_micros() as u64;
            for at in 0..self.steps.len() {
                let begun = processor_time();
                self.step(at, time_us);
                let taken = processor_time() - begun;
                let step = &self.steps[at];
                if let Some(case) = step.case {
                    costs.add(case, taken, step.frames.len() as u64);
                }
            }
        }
        costs
    }

    /// All packets of a step.
    fn step(&mut self, at: usize, time_us: u64) {
        let forwarding = self.switch.forwarding_mut().expect("committed when it was made");
        let pipeline = forwarding.pipeline_mut();
        let step = &self.steps[at];
        for frame in &step.frames {
            let mut input = IngressInput { port: step.port, time_us, instance: Instance::Normal };
            let verdict = loop {
                let outcome = pipeline.ingress(&mut self.packet, frame, &input);
                if !outcome.resubmit {
                    break outcome.verdict;
                }
                input = pipeline.next_pass(&input, Instance::Resubmitted);
            };
            let port = match verdict {
                Verdict::Drop | Verdict::Elsewhere(_) => continue,
                Verdict::Unicast(port) => port,
                Verdict::Multicast(_) | Verdict::Replicate(_) => 1,
            };
            let input =
                EgressInput { port, time_us, enq_time_us: time_us, ..EgressInput::default() };
            pipeline.egress(&mut self.packet, &input, &mut self.out);
            black_box(&self.out);
        }
    }
}

/// A switch with the program and the entries of a scenario.
pub(super) fn loaded(scenario: &Scenario) -> Result<(Switch, Catalogue)> {
    let (forwarding, updates) = parts(scenario)?;
    let catalogue = Catalogue::new(forwarding.p4info())?;
    let ports = (1..=scenario.network.topology.hosts.len() as u16).collect();
    let mut switch = Switch::new(SwitchConfig { ports, ..SwitchConfig::default() });
    switch.commit(forwarding);
    let results = switch.write(&updates).map_err(|e| anyhow!("{e}"))?;
    for result in results {
        result.map_err(|error| anyhow!("{error}"))?;
    }
    Ok((switch, catalogue))
}

/// The program of a scenario, and its entries.
pub(super) fn parts(scenario: &Scenario) -> Result<(Forwarding, Vec<Update>)> {
    let pipeline = program::compile(scenario, None)?.pipeline;
    let text = String::from_utf8(pipeline.device_config)?;
    let forwarding = Forwarding::from_source(&text).map_err(|error| anyhow!("{error}"))?;
    let catalogue = Catalogue::new(&pipeline.p4info)?;
    let mut entities =
        entries::forwarding(&catalogue, &plan::forwarding(&scenario.network.topology)[0]);
    for job in &scenario.jobs {
        let slot = slot(job.id.get())?;
        for part in plan::job(&scenario.network.topology, &Placement::unassigned(job)) {
            entities.extend(entries::job(&catalogue, &part, job.run(), slot));
        }
    }
    Ok((forwarding, entries::insert(entities)))
}

fn slot(job: u16) -> Result<entries::JobSlot> {
    let slot = u8::try_from(job).ok().and_then(entries::JobSlot::new);
    slot.context("a job's number is its slot here")
}

/// Two jobs at one switch: the measured one has three workers.
pub(super) fn scenario(program: Program, values: u16, cells: u32) -> Result<Scenario> {
    let (protocol, switch) = match program {
        // However long a repetition is interrupted, aggregators must not become idle.
        Program::Atp => ("atp", "idle_timeout = \"600s\"\n"),
        Program::Esa => ("esa", ""),
    };
    let text = format!(
        "[protocol]\nkind = \"{protocol}\"\nvalues_per_packet = {values}\nslots = 64\nwindow = 1\n\
         [topology]\nkind = \"star\"\nworkers = 5\n[switch]\npool = {cells}\n{switch}\
         [[job]]\nname = \"measured\"\nworkers = 3\n[[job]]\nname = \"other\"\nworkers = 2\n"
    );
    Ok(tributary_model::jobfile::parse(&text, "bench.toml")?)
}

fn steps(program: Program, scenario: &Scenario) -> Vec<Step> {
    const LOW: u8 = 1;
    const HIGH: u8 = 200;
    let [measured, other] = &scenario.jobs[..] else { unreachable!("the file has two jobs") };
    let gradient = |job: &JobSpec, worker: usize, priority: u8, case, outcome| {
        let priority = if program == Program::Atp { 0 } else { priority };
        let to = scenario.network.topology.host(job.server()).address;
        let from = job.workers[worker];
        let frames = frames(scenario, job, Kind::Gradient, priority, from, to, Bitmap(1 << worker));
        step(scenario, from, frames, case, (job.id.get(), outcome))
    };
    let results = {
        let to = Host::group(measured.id);
        let from = measured.server();
        let frames = frames(scenario, measured, Kind::Parameter, 0, from, to, Bitmap(0b111));
        let counted = (measured.id.get(), Outcome::Distributed);
        step(scenario, from, frames, Some(Case::Result), counted)
    };
    let mut steps = vec![
        gradient(measured, 0, HIGH, Some(Case::Absorb), Outcome::Absorbed),
        gradient(measured, 1, HIGH, Some(Case::Add), Outcome::Added),
        gradient(other, 0, LOW, Some(Case::Collide), Outcome::Collided),
        gradient(measured, 2, HIGH, Some(Case::Complete), Outcome::Completed),
        results,
    ];
    if program == Program::Esa {
        steps.extend([
            gradient(other, 0, LOW, None, Outcome::Absorbed),
            gradient(measured, 0, HIGH, Some(Case::Preempt), Outcome::Preempted),
            gradient(measured, 1, HIGH, None, Outcome::Added),
            gradient(measured, 2, HIGH, None, Outcome::Completed),
        ]);
    }
    steps
}

fn step(
    scenario: &Scenario,
    from: HostId,
    frames: Vec<Vec<u8>>,
    case: Option<Case>,
    counted: (u16, Outcome),
) -> Step {
    let (switch, port) = scenario.network.topology.attachment(from);
    assert_eq!(switch, SwitchId(0), "a star has one switch");
    Step { case, counted, port, frames }
}

/// One frame per aggregator.
fn frames(
    scenario: &Scenario,
    job: &JobSpec,
    kind: Kind,
    priority: u8,
    from: HostId,
    to: Host,
    bitmap: Bitmap,
) -> Vec<Vec<u8>> {
    let source = scenario.network.topology.host(from).address;
    let envelope = Envelope { source, destination: to, ecn: Ecn::Ect0 };
    let frame = |cell| {
        let repr = Repr {
            protocol: scenario.network.protocol,
            kind,
            flags: Flags::NONE,
            priority,
            job: job.id,
            epoch: job.epoch,
            values: scenario.network.switch.values_per_packet,
            sequence: Sequence(cell),
            bitmap,
            rack: Rack::NONE,
            audience: Audience::ALL,
            index: AggregatorIndex(cell),
        };
        let mut frame = Vec::new();
        emit_frame(&mut frame, &envelope, &repr);
        frame
    };
    (0..CELLS).map(frame).collect()
}
