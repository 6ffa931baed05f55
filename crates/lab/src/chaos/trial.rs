//! The loop: starts parts, lets them fail, and listens to workers.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tributary_model::JobSpec;
use tributary_run::testbed::{Output, Process, Stream};
use tributary_worker::rounds::Event;

use crate::chaos::Options;
use crate::chaos::clients::Clients;
use crate::chaos::crew::{Crew, End, Outcome, PAUSE};
use crate::chaos::report::{self, Tally};
use crate::chaos::schedule::{Deed, Failures, Fault, Kind, Schedule};
use crate::chaos::site::{Role, Site};
use crate::chaos::wounds::Wounds;

/// How long the loop waits for an event.
const TICK: Duration = Duration::from_millis(10);

/// Time between two lines of progress.
const LINE: Duration = Duration::from_secs(10);

/// Besides the time that the job file states, workers of a broken run have this long to end: processes are slow
/// on a machine with few cores.
const SLACK: Duration = Duration::from_secs(20);

/// Time for jobs to get over a failure, while other parts fail.
const RECOVERY: Duration = Duration::from_secs(120);

/// Time limit for the controller that cleans up.
const CLEANING: Duration = Duration::from_secs(60);

/// Status of a Rust program that panics.
const PANIC: i32 = 101;

/// A part and its process.
struct Part {
    role: Role,
    process: Option<Process>,
    /// How often it was started.
    life: u64,
    /// When it is started again. Workers are started by their crew.
    due: Option<Instant>,
    /// How long it stays away when it ends, and the failure, if it was killed.
    killed: Option<(Duration, u64)>,
    /// When it goes on, and the failure, if it is stopped.
    stopped: Option<(Instant, u64)>,
}

/// A line of a part's output.
struct Line {
    part: usize,
    life: u64,
    text: String,
}

/// Everything that runs.
pub(crate) struct Chaos<'a> {
    site: &'a Site,
    options: &'a Options,
    parts: Vec<Part>,
    crews: Vec<Crew>,
    /// The part of each worker of each crew.
    seats: Vec<Vec<usize>>,
    failures: Failures,
    /// Links that are down, until when, and the failure.
    cut: BTreeMap<usize, (Instant, u64)>,
    wounds: Wounds,
    tally: Tally,
    clients: Option<Clients>,
    /// The losses with which jobs went on: job, run, workers.
    went_on: BTreeSet<(usize, u64, Vec<u16>)>,
    begin: Instant,
    elapsed: Duration,
    lines: Sender<Line>,
    inbox: Receiver<Line>,
}

impl<'a> Chaos<'a> {
    pub(crate) fn new(site: &'a Site, options: &'a Options) -> Self {
        let begin = Instant::now();
        let part = |role: Role| {
            let due = (role.kind != Kind::Worker).then_some(begin);
            Part { role, process: None, life: 0, due, killed: None, stopped: None }
        };
        let parts: Vec<Part> = site.roles().into_iter().map(part).collect();
        let crew = |job: &JobSpec| Crew::new(job.workers.len(), job.on_death.goes_on(), begin);
        let crews: Vec<Crew> = site.jobs().map(crew).collect();
        let mut seats = vec![Vec::new(); crews.len()];
        for (at, part) in parts.iter().enumerate() {
            if let Some((crew, _)) = part.role.worker() {
                seats[crew].push(at);
            }
        }
        let count = |kind| match kind {
            Kind::Link => site.links.len(),
            kind => parts.iter().filter(|part| part.role.kind == kind).count(),
        };
        let longest = site.scenario.network.worker_timeout;
        let Options { seed, every, length, .. } = *options;
        let failures = if options.in_turn {
            Failures::in_turn(count, every)
        } else {
            Failures::Random(
                Box::new(Schedule::new(seed, count, every, longest).peekable()),
                length,
            )
        };
        let (lines, inbox) = channel();
        Self {
            site,
            options,
            crews,
            seats,
            failures,
            cut: BTreeMap::new(),
            wounds: Wounds::default(),
            tally: Tally::default(),
            clients: None,
            went_on: BTreeSet::new(),
            begin,
            elapsed: Duration::ZERO,
            lines,
            inbox,
            parts,
        }
    }

    /// Runs until the time is over and jobs have got over all failures.
    pub(crate) fn run(&mut self, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<()> {
        if self.options.clients {
            let at = self.site.controller_at();
            let clients = Clients::start(&at, &self.site.scenario, self.options.seed)?;
            self.tally.clients = Some(Arc::clone(clients.counts()));
            self.clients = Some(clients);
        }
        let mut next_line = self.begin + LINE;
        // Once all is calm, each job sums one more round.
        let mut calm: Option<(u64, Instant)> = None;
        loop {
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            self.hear()?;
            let now = Instant::now();
            self.elapsed = now - self.begin;
            self.attend(now)?;
            self.fail(now, tell)?;
            self.check(now)?;
            if now >= next_line {
                tell(&self.tally.line(self.elapsed, self.wounds.open()));
                next_line = now + LINE;
            }
            let over = self.failures.are_over(self.elapsed) && self.wounds.open() == 0;
            match calm {
                _ if !over => {}
                None => calm = Some((self.tally.complete, now)),
                Some((complete, _)) if self.tally.complete > complete => return Ok(()),
                Some((_, since)) => ensure!(
                    now < since + 2 * RECOVERY,
                    "no job has finished a run since parts stopped failing"
                ),
            }
        }
    }

    /// Takes the lines of workers.
    fn hear(&mut self) -> Result<()> {
        let mut next = self.inbox.recv_timeout(TICK).ok();
        while let Some(line) = next {
            self.hear_line(&line)?;
            next = self.inbox.try_recv().ok();
        }
        Ok(())
    }

    fn hear_line(&mut self, line: &Line) -> Result<()> {
        let part = &self.parts[line.part];
        let Some((crew, worker)) = part.role.worker().filter(|_| part.life == line.life) else {
            return Ok(());
        };
        let now = Instant::now();
        match serde_json::from_str(&line.text) {
            Ok(Event::Round { .. }) => {
                self.tally.sums += 1;
                self.crews[crew].round(worker);
                self.wounds.round(crew, worker, now);
            }
            Ok(Event::Done(report)) => {
                let job = self.site.jobs().nth(crew).context("a job of the file")?;
                ensure!(
                    report.verified == report.values || job.workload.shares_verification(),
                    "{}: only {} of {} values could be compared",
                    part.role.name,
                    report.verified,
                    report.values
                );
                self.tally.values += report.verified;
                if let Some(digest) = &report.digest {
                    ensure!(
                        self.crews[crew].agrees(digest),
                        "{}: its sums differ from those of another worker of the run",
                        part.role.name
                    );
                }
            }
            Ok(Event::GoesOn(loss)) => {
                let at = (crew, self.crews[crew].run(), loss.without);
                self.went_on.insert(at);
                self.tally.went_on = self.went_on.len();
            }
            Ok(Event::Failed { reason }) if reason.contains("WRONG SUM") => {
                self.tally.wrong += 1;
                bail!("{}: {reason}", part.role.name);
            }
            Ok(Event::Failed { reason }) => {
                let known = report::reason(&reason);
                let known = known.with_context(|| {
                    format!("{} ended for a reason that explains nothing: {reason}", part.role.name)
                })?;
                *self.tally.reasons.entry(known).or_default() += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// Starts what is due, continues what was stopped, and notices what has ended.
    fn attend(&mut self, now: Instant) -> Result<()> {
        for at in 0..self.parts.len() {
            let part = &mut self.parts[at];
            let status = match &part.process {
                Some(process) => process.wait(Some(Duration::ZERO))?,
                None => None,
            };
            if let Some(status) = status {
                self.ended(at, status, now)?;
            }
            let part = &mut self.parts[at];
            if let Some((_, wound)) = part.stopped.take_if(|(until, _)| *until <= now) {
                send(part, Signal::SIGCONT);
                self.wounds.back(wound, now);
            }
            if self.parts[at].due.take_if(|due| *due <= now).is_some() {
                self.start(at, 0, now)?;
            }
        }
        for crew in 0..self.crews.len() {
            for worker in self.crews[crew].start(now) {
                let run = self.crews[crew].run();
                self.start(self.seats[crew][worker], run, now)?;
            }
            for worker in self.crews[crew].waiting() {
                if let Some(process) = &self.parts[self.seats[crew][worker]].process {
                    process.ask_to_end();
                }
            }
        }
        let back: Vec<usize> = self
            .cut
            .iter()
            .filter(|(_, (until, _))| *until <= now)
            .map(|(link, _)| *link)
            .collect();
        for link in back {
            let (node, interface) = &self.site.links[link];
            self.site.testbed.set_link(node, interface, true)?;
            if let Some((_, wound)) = self.cut.remove(&link) {
                self.wounds.back(wound, now);
            }
        }
        Ok(())
    }

    fn start(&mut self, at: usize, run: u64, now: Instant) -> Result<()> {
        let part = &mut self.parts[at];
        part.life += 1;
        let (lines, life) = (self.lines.clone(), part.life);
        let sink = move |stream, text: &str| {
            if stream == Stream::Out {
                // The loop may have ended.
                drop(lines.send(Line { part: at, life, text: text.to_owned() }));
            }
        };
        let command = self.site.command(&part.role, run);
        let output = match part.role.kind {
            Kind::Worker => Output::Lines(Arc::new(sink)),
            _ => Output::Keep,
        };
        part.process = Some(self.site.testbed.spawn(&part.role.node, command, output)?);
        if let Some((_, wound)) = part.killed.take() {
            self.wounds.back(wound, now);
        }
        Ok(())
    }

    /// A process has ended: it was killed, or ended by itself because of the failure of another.
    fn ended(&mut self, at: usize, status: ExitStatus, now: Instant) -> Result<()> {
        let part = &mut self.parts[at];
        let Some(process) = part.process.take() else { return Ok(()) };
        if let Some((_, wound)) = part.stopped.take() {
            self.wounds.back(wound, now);
        }
        let errors = process.output(Stream::Err);
        ensure!(
            status.code() != Some(PANIC) && !errors.contains("panicked at"),
            "{} panicked: {}",
            part.role.name,
            errors.lines().next().unwrap_or_default()
        );
        if part.role.kind == Kind::Controller && part.killed.is_none() {
            let said = errors.lines().find(|line| line.starts_with("error: "));
            let said = said.unwrap_or_default().to_owned();
            self.tally.controller_failed(said)?;
        }
        let part = &mut self.parts[at];
        let pause = part.killed.map_or(PAUSE, |(away, _)| away);
        let Some((crew, worker)) = part.role.worker() else {
            part.due = Some(now + pause);
            return Ok(());
        };
        // Its last lines may still be on their way.
        drop(process.output(Stream::Out));
        self.hear()?;
        let end = if status.success() { End::Done } else { End::Failed };
        match self.crews[crew].ended(worker, end, pause, now) {
            Some(Outcome::Complete) => self.tally.complete += 1,
            Some(Outcome::Broken) => self.tally.broken += 1,
            None => {}
        }
        Ok(())
    }

    /// Lets parts fail that are due to.
    fn fail(&mut self, now: Instant, tell: &mut dyn FnMut(&str)) -> Result<()> {
        let at = self.elapsed;
        let waiting = self.crews.iter().filter(|crew| !crew.has_summed()).count();
        while let Some(fault) = self.failures.due(at, waiting + self.wounds.open(), now) {
            let happened = match fault.kind {
                Kind::Link => self.cut(&fault, now)?,
                _ => self.strike(&fault, now),
            };
            match happened {
                Some(name) => {
                    self.tally.count(&fault);
                    tell(&format!("{:8.2} s  {name}: {}", at.as_secs_f64(), words(fault.deed)));
                }
                None => {
                    self.tally.skipped += 1;
                    self.failures.missed(&fault);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes a link down. Returns its name, or `None` if it is down already.
    fn cut(&mut self, fault: &Fault, now: Instant) -> Result<Option<String>> {
        if self.cut.contains_key(&fault.which) {
            return Ok(None);
        }
        let Deed::Cut(length) = fault.deed else { return Ok(None) };
        let (node, interface) = &self.site.links[fault.which];
        self.site.testbed.set_link(node, interface, false)?;
        let name = format!("link at {interface} of switch {node}");
        let wound = self.wounds.add(Kind::Link, &name, None, self.crews.len(), now);
        self.cut.insert(fault.which, (now + length, wound));
        Ok(Some(name))
    }

    /// Kills or stops a process. Returns its name, or `None` if it is away already.
    fn strike(&mut self, fault: &Fault, now: Instant) -> Option<String> {
        let mut parts = self.parts.iter_mut().filter(|part| part.role.kind == fault.kind);
        let part = parts.nth(fault.which)?;
        if part.process.is_none() || part.killed.is_some() || part.stopped.is_some() {
            return None;
        }
        let Role { kind, name, .. } = &part.role;
        let mut wound = || self.wounds.add(*kind, name, part.role.worker(), self.crews.len(), now);
        match fault.deed {
            Deed::Kill(away) => {
                part.killed = Some((away, wound()));
                send(part, Signal::SIGKILL);
            }
            Deed::Stop(length) => {
                part.stopped = Some((now + length, wound()));
                send(part, Signal::SIGSTOP);
            }
            Deed::Cut(_) => return None,
        }
        Some(part.role.name.clone())
    }

    /// Checks that broken runs end in time, and that jobs get over failures.
    fn check(&self, now: Instant) -> Result<()> {
        if let Some(problem) = self.clients.as_ref().and_then(Clients::problem) {
            bail!("a client of the controller: {problem}");
        }
        // A worker gives up after twice this time; a stop may come in between.
        let stated = 2 * self.site.scenario.network.worker_timeout;
        let patience = stated + self.site.scenario.network.worker_timeout + SLACK;
        for (crew, seats) in self.crews.iter().zip(&self.seats) {
            if let Some(worker) = crew.late(patience, now).first() {
                let name = &self.parts[seats[*worker]].role.name;
                bail!("{name} still runs {patience:?} after another worker of its job has ended");
            }
        }
        let limit = RECOVERY.max(10 * stated);
        let silent = |(crew, _): &(&Crew, &JobSpec)| now > self.begin + limit && !crew.has_summed();
        if let Some((_, job)) = self.crews.iter().zip(self.site.jobs()).find(silent) {
            bail!("job {} has not summed anything in {limit:?} since the start", job.name);
        }
        if let Some(name) = self.wounds.older_than(limit, now) {
            bail!("not all jobs have summed anything in {limit:?} since the failure of {name}");
        }
        Ok(())
    }

    /// Kills all processes, and brings all links up.
    pub(crate) fn end(&mut self) {
        self.clients = None;
        for part in &mut self.parts {
            // The network stays for the controller that cleans up.
            if !matches!(part.role.kind, Kind::Switch | Kind::CrossConnect)
                && let Some(process) = part.process.take()
            {
                drop(process.kill());
            }
        }
        for (link, _) in std::mem::take(&mut self.cut) {
            let (node, interface) = &self.site.links[link];
            // The testbed is about to end with all links.
            drop(self.site.testbed.set_link(node, interface, true));
        }
    }

    /// A controller that knows of no jobs takes over, removes all jobs, and sweeps what they held.
    pub(crate) fn clean(&mut self) -> Result<()> {
        let part = self.parts.first().context("there is a switch")?;
        let cleaner =
            self.site.testbed.spawn(&part.role.node, self.site.cleaner(), Output::Keep)?;
        let deadline = Instant::now() + CLEANING;
        while !cleaner.output(Stream::Out).contains("end with Ctrl-C") {
            let errors = || cleaner.output(Stream::Err);
            let ended = cleaner.wait(Some(TICK))?.is_some();
            ensure!(!ended, "the controller that cleans up has failed: {}", errors());
            ensure!(Instant::now() < deadline, "the controller does not clean up: {}", errors());
        }
        cleaner.ask_to_end();
        let status = cleaner.end(CLEANING)?;
        let errors = cleaner.output(Stream::Err);
        ensure!(status.success(), "the controller that cleans up has failed: {errors}");
        for part in &mut self.parts {
            if let Some(process) = part.process.take() {
                let errors = process.output(Stream::Err);
                ensure!(!errors.contains("panicked at"), "{} panicked: {errors}", part.role.name);
                drop(process.kill());
            }
        }
        Ok(())
    }

    pub(crate) fn report(&self) -> String {
        let there = |kind: &Kind| {
            *kind == Kind::Link || self.parts.iter().any(|part| part.role.kind == *kind)
        };
        let rows = if self.options.in_turn {
            report::in_turn(&self.wounds)
        } else {
            let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(there).collect();
            self.tally.by_kind(&kinds, &self.wounds)
        };
        format!("{rows}\n{}", self.tally.text(self.elapsed, self.options.seed))
    }
}

/// Sends a signal to a part's processes. They are not reaped, so the group is still theirs.
fn send(part: &Part, signal: Signal) {
    if let Some(process) = &part.process {
        let _ = killpg(Pid::from_raw(process.id().cast_signed()), signal);
    }
}

fn words(deed: Deed) -> String {
    match deed {
        Deed::Kill(away) => format!("killed, back after {away:.2?}"),
        Deed::Stop(length) => format!("stopped for {length:.2?}"),
        Deed::Cut(length) => format!("down for {length:.2?}"),
    }
}
