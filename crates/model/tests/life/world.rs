//! Workers, switches and a journal around a job's state machine, each of which may fail at any step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary_model::OnDeath;
use tributary_model::job::{
    Begin, Event, Failure, Job, Notice, Order, Progress, RETURN, Rules, Served, Stop, Stopped,
    Stream, Turn,
};
use tributary_protocol::{Assignment, Time};
use tributary_wire::{Epoch, Service, WorkerIndex, WorkerSet};

/// Rounds of the job.
pub(crate) const ROUNDS: u64 = 2;

/// What is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) on_death: OnDeath,
    /// Whether a client lets each round begin.
    pub(crate) stepped: bool,
    /// Whether workers go on in another run after the first round.
    pub(crate) renews: bool,
    /// Whether the job is released when no worker takes part.
    pub(crate) leased: bool,
}

impl Kind {
    pub(crate) fn of(on_death: OnDeath) -> Self {
        Self { on_death, stepped: false, renews: false, leased: false }
    }
}

/// How many faults of each kind may happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) deaths: u8,
    pub(crate) crashes: u8,
    pub(crate) breaks: u8,
    /// Processes that are started, besides the first ones.
    pub(crate) starts: u8,
    /// Changes that switches refuse, or that the journal cannot keep, for the moment.
    pub(crate) delays: u8,
    /// Changes that switches refuse for good.
    pub(crate) refusals: u8,
    /// Moves and releases of clients.
    pub(crate) requests: u8,
    /// Switches that lose their memory.
    pub(crate) lapses: u8,
}

/// A step of the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Start(usize),
    Deliver(usize),
    Sum(usize),
    /// The client lets the next iteration begin.
    Iterate,
    /// A worker says that it has all sums of its iteration.
    Report(usize),
    Reconnect(usize),
    Switches(Answer),
    Journal(Answer),
    /// A client asks for something.
    Ask(Request),
    /// Switches have done it, or not.
    Requested(Answer),
    Timer,
    /// No sum has come to a worker for too long.
    Stall(usize),
    Die(usize),
    Break(usize),
    /// Switches lose what they have added.
    Lapse,
    Crash,
    Restart,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    Move,
    Release,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Done,
    Later,
    Never,
}

/// A worker's process.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Member {
    /// It has not been started, or has died or failed.
    Out,
    Waiting(Stream),
    In(Part),
    /// It has all sums, and has left.
    Finished(Sums),
}

/// A worker in a run.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    stream: Option<Stream>,
    run: Begin,
    sums: Sums,
    stopped: Option<Stop>,
    /// As last told in this run, in a job with iterations.
    turn: Option<Turn>,
}

/// The sums that a worker has: whose values each contains. Those before the worker was started again are not
/// there.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sums {
    /// The run that the job began with.
    first: Epoch,
    of: Vec<Option<WorkerSet>>,
}

impl Part {
    fn stop(&mut self, why: Stop) {
        self.stopped = Some(if self.sums.are_all() { Stop::Done } else { why });
    }

    fn stopped(&self) -> Option<Stopped> {
        self.stopped.map(|why| Stopped { rounds: self.sums.of.len() as u64, why })
    }

    /// Whether the controller does not know that the worker has the sums of its iteration.
    fn is_to_report(&self) -> bool {
        let number = self.sums.of.len() as u64;
        let open = |turn: Turn| turn.number == number && turn.running && !turn.reported;
        self.turn.is_some_and(open)
    }
}

impl Sums {
    fn are_all(&self) -> bool {
        self.of.len() as u64 == ROUNDS
    }
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    rules: Rules,
    renews: bool,
    budget: Budget,
    /// How often switches may lose their memory in all.
    lapses: u8,
    job: Option<Job>,
    /// What is being done for a client, or because no worker takes part.
    request: Option<Request>,
    /// Whether something has failed half-way, so that the client releases the job.
    broken: bool,
    released: bool,
    journal: Served,
    /// What switches serve.
    switches: (Epoch, WorkerSet),
    /// Ordered, and not answered yet.
    change: Option<WorkerSet>,
    record: Option<Served>,
    members: Vec<Member>,
    inboxes: Vec<VecDeque<Notice>>,
    /// By run and round: whose values are there.
    values: BTreeMap<(Epoch, u64), WorkerSet>,
    /// What each run was said to be.
    runs: BTreeMap<Epoch, Begin>,
    /// The first run of the job that each run continues.
    families: BTreeMap<Epoch, Epoch>,
    finished: Vec<Sums>,
    now: Time,
    /// Per worker.
    streams: Vec<u64>,
    last_epoch: u32,
}

fn index(worker: usize) -> WorkerIndex {
    tributary_model::worker_index(worker)
}

fn epoch(number: u32) -> Epoch {
    Epoch::new(number).unwrap()
}

impl World {
    pub(crate) fn new(workers: u16, kind: Kind, budget: Budget) -> Self {
        let Kind { on_death, stepped, renews, leased } = kind;
        let grace = leased.then_some(10 * RETURN);
        let name = "a".into();
        let rules = Rules { name, workers, on_death, stepped, patience: RETURN, grace };
        let served = Served {
            epoch: epoch(1),
            workers: rules.everyone(),
            handover: None,
            begun: false,
            ended: false,
            progress: Progress::new(Assignment::NONE, None),
        };
        Self {
            job: Some(Job::resume(rules.clone(), served)),
            renews,
            lapses: budget.lapses,
            request: None,
            broken: false,
            released: false,
            budget: Budget { starts: budget.starts + u8::try_from(workers).unwrap(), ..budget },
            journal: served,
            switches: (served.epoch, served.workers),
            change: None,
            record: None,
            members: vec![Member::Out; workers.into()],
            inboxes: vec![VecDeque::new(); workers.into()],
            values: BTreeMap::new(),
            runs: BTreeMap::new(),
            families: BTreeMap::new(),
            finished: Vec::new(),
            now: Time::ZERO,
            streams: vec![0; workers.into()],
            last_epoch: 1,
            rules,
        }
    }

    /// All that can happen next: what must happen some time, and faults.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of step")]
    pub(crate) fn steps(&self) -> (Vec<Step>, Vec<Step>) {
        let (mut due, mut starts, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        let up = self.job.is_some();
        if !up && !self.released {
            due.push(Step::Restart);
        } else if up && self.budget.crashes > 0 {
            faults.push(Step::Crash);
        }
        let late = |due: &mut Vec<Step>, faults: &mut Vec<Step>, step: fn(Answer) -> Step| {
            due.push(step(Answer::Done));
            if self.budget.delays > 0 {
                faults.push(step(Answer::Later));
            }
            if self.budget.refusals > 0 {
                faults.push(step(Answer::Never));
            }
        };
        if self.budget.lapses > 0 && self.values.values().any(|those| !those.is_empty()) {
            faults.push(Step::Lapse);
        }
        if up && self.change.is_some() {
            late(&mut due, &mut faults, Step::Switches);
        }
        if up && self.record.is_some() {
            late(&mut due, &mut faults, Step::Journal);
        }
        if up && self.request.is_some() {
            late(&mut due, &mut faults, Step::Requested);
        }
        for request in [Request::Move, Request::Release] {
            let may = |job: &Job| {
                let mut job = job.clone();
                match request {
                    Request::Move => job.begin_move().is_ok(),
                    Request::Release => job.begin_release().is_ok(),
                }
            };
            if self.job.as_ref().is_some_and(may) {
                if self.broken && request == Request::Release {
                    due.push(Step::Ask(request));
                } else if self.budget.requests > 0 {
                    faults.push(Step::Ask(request));
                }
            }
        }
        if self.next_iteration().is_some() {
            due.push(Step::Iterate);
        }
        for (worker, member) in self.members.iter().enumerate() {
            if (up || self.released) && !self.inboxes[worker].is_empty() {
                due.push(Step::Deliver(worker));
            }
            match member {
                Member::Out if up && self.budget.starts > 0 => starts.push(Step::Start(worker)),
                Member::In(part) => {
                    if self.has_sum(part) {
                        due.push(Step::Sum(worker));
                    }
                    if up && self.record.is_none() && part.stream.is_some() && part.is_to_report() {
                        due.push(Step::Report(worker));
                    }
                    if (up || self.released) && part.stream.is_none() {
                        due.push(Step::Reconnect(worker));
                    }
                    if up && part.stream.is_some() && self.budget.breaks > 0 {
                        faults.push(Step::Break(worker));
                    }
                }
                Member::Out | Member::Waiting(_) | Member::Finished(_) => {}
            }
            if self.budget.deaths > 0 && matches!(member, Member::In(_) | Member::Waiting(_)) {
                faults.push(Step::Die(worker));
            }
        }
        // After all that takes no time.
        if self.job.as_ref().is_some_and(|job| job.deadline().is_some()) {
            due.push(Step::Timer);
        }
        if due.is_empty() {
            let ends = self.rules.on_death == OnDeath::End;
            let stays = |part: &Part| match part.stopped {
                None => true,
                Some(Stop::Done | Stop::Renewal) => ends,
                Some(Stop::Stuck) => false,
            };
            let sums = |member: &Member| matches!(member, Member::In(part) if stays(part));
            let sums = self.members.iter().position(sums);
            due.extend(sums.map(Step::Stall));
        }
        due.append(&mut starts);
        (due, faults)
    }

    fn has_sum(&self, part: &Part) -> bool {
        let round = part.sums.of.len() as u64;
        let there = self.values.get(&(part.run.epoch, round));
        self.may_sum(part) && there == Some(&part.run.workers)
    }

    /// Whether a worker sums the next round.
    fn may_sum(&self, part: &Part) -> bool {
        let round = part.sums.of.len() as u64;
        let runs = |turn: Turn| turn.number == round + 1 && turn.running && !turn.reported;
        part.stopped.is_none()
            && round < ROUNDS
            && (!self.rules.stepped || part.turn.is_some_and(runs))
    }

    /// What follows when the client lets the next iteration begin. The journal is written by one at a time.
    fn next_iteration(&self) -> Option<Progress> {
        let job = self.job.as_ref().filter(|_| self.record.is_none())?;
        let started = job.started(0).ok()?;
        (started.iteration.number <= ROUNDS).then_some(started)
    }

    /// The journal has new progress, and then the job.
    fn progress(&mut self, progress: Progress) {
        let job = self.job.as_ref().expect("it is up");
        self.journal = Served { progress, ..job.served() };
        self.tell(Event::Progressed(progress));
    }

    /// Whether nothing is left to do: each worker has ended, or waits for others that have.
    pub(crate) fn is_over(&self) -> bool {
        let waits = |member: &Member| matches!(member, Member::Waiting(_));
        !self.members.iter().any(|member| matches!(member, Member::In(_)))
            && !self.members.iter().all(waits)
            && self.change.is_none()
            && self.record.is_none()
            && self.request.is_none()
            && !self.broken
            // Without a client, a job that nobody waits for ends by itself.
            && (self.released || self.rules.grace.is_none() || self.members.iter().any(waits))
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of step")]
    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Step::Start(worker) => {
                self.budget.starts -= 1;
                let stream = self.stream(worker);
                self.members[worker] = Member::Waiting(stream);
                self.inboxes[worker].clear();
                self.tell(Event::Take(stream, index(worker), None));
            }
            Step::Deliver(worker) => {
                let notice = self.inboxes[worker].pop_front().expect("it is not empty");
                self.hear(worker, notice);
            }
            Step::Sum(worker) => {
                let Member::In(part) = &mut self.members[worker] else { unreachable!() };
                part.sums.of.push(Some(part.run.workers));
                let renews = self.renews && part.run.rounds == 0;
                if self.rules.stepped {
                    // First it reports the end of the iteration.
                } else if renews || part.sums.are_all() {
                    part.stop(Stop::Renewal);
                    self.stopped(worker);
                } else {
                    self.contribute(worker);
                }
            }
            Step::Iterate => {
                let next = self.next_iteration().expect("there is one");
                self.progress(next);
            }
            Step::Report(worker) => {
                let Member::In(part) = &self.members[worker] else { unreachable!() };
                let (stream, number) = (part.stream, part.sums.of.len() as u64);
                let run = part.run.epoch;
                let job = self.job.as_ref().expect("it is up");
                // The controller may not know the worker, or the iteration.
                let known = stream.and_then(|stream| job.worker(stream, run));
                let next = known.and_then(|own| job.finished(number, own).ok());
                if let Some(next) = next.filter(|next| *next != job.served().progress) {
                    self.progress(next);
                }
            }
            Step::Reconnect(worker) => {
                let stream = self.stream(worker);
                if self.released {
                    return self.end(worker, Member::Out);
                }
                let Member::In(part) = &mut self.members[worker] else { unreachable!() };
                part.stream = Some(stream);
                let run = part.run.epoch;
                self.tell(Event::Take(stream, index(worker), Some(run)));
                self.stopped(worker);
            }
            Step::Switches(answer) => {
                let workers = self.change.take().expect("a change is under way");
                let outcome = self.answer(answer);
                let outcome = outcome.map(|()| {
                    self.last_epoch += 1;
                    self.switches = (epoch(self.last_epoch), workers);
                    self.switches.0
                });
                self.tell(Event::Changed(outcome));
            }
            Step::Journal(answer) => {
                let served = self.record.take().expect("a record is written");
                let outcome = self.answer(answer);
                if outcome.is_ok() {
                    self.journal = served;
                }
                self.tell(Event::Recorded(outcome));
            }
            Step::Ask(request) => {
                if !(self.broken && request == Request::Release) {
                    self.budget.requests -= 1;
                }
                self.request(request);
            }
            Step::Requested(answer) => {
                match self.request.take().expect("something was asked for") {
                    Request::Move => {
                        let served = self.job.as_ref().expect("it is up").served();
                        let before = served.progress;
                        let service = Service::new(before.assignment.service.get() + 1);
                        let now = Progress {
                            assignment: Assignment { service, ..before.assignment },
                            ..before
                        };
                        let now = match self.answer(answer) {
                            Ok(()) => {
                                self.journal = Served { progress: now, ..served };
                                Some(now)
                            }
                            Err(_) => None,
                        };
                        let whole = answer != Answer::Never;
                        self.broken |= !whole;
                        self.tell(Event::Moved { now, whole });
                    }
                    Request::Release => {
                        if self.answer(answer).is_ok() {
                            self.tell(Event::Released);
                            (self.job, self.released, self.broken) = (None, true, false);
                        } else {
                            self.broken = true;
                            self.tell(Event::Unreleased);
                        }
                    }
                }
            }
            Step::Timer => {
                let job = self.job.as_mut().expect("it is up");
                self.now = self.now.max(job.deadline().expect("one is set"));
                job.tick(self.now);
                self.obey();
            }
            Step::Stall(worker) => {
                let Member::In(part) = &mut self.members[worker] else { unreachable!() };
                part.stop(Stop::Stuck);
                match self.rules.on_death {
                    // It does not wait for others that are gone.
                    OnDeath::End if part.sums.are_all() => {
                        let sums = part.sums.clone();
                        self.finish(worker, sums);
                    }
                    OnDeath::End => self.end(worker, Member::Out),
                    _ => self.stopped(worker),
                }
            }
            Step::Die(worker) => {
                self.budget.deaths -= 1;
                self.end(worker, Member::Out);
            }
            Step::Break(worker) => {
                self.budget.breaks -= 1;
                let Member::In(part) = &mut self.members[worker] else { unreachable!() };
                let stream = part.stream.take().expect("it is connected");
                self.inboxes[worker].clear();
                self.tell(Event::Gone(stream));
            }
            Step::Lapse => {
                self.budget.lapses -= 1;
                self.values.clear();
                // Those that lack a sum send again.
                (0..self.members.len()).for_each(|worker| self.contribute(worker));
            }
            Step::Crash => {
                self.budget.crashes -= 1;
                self.job = None;
                // What was half-way is repaired when it is started again.
                (self.request, self.broken) = (None, false);
                // The switches may have changed, and nobody knows.
                if let Some(workers) = self.change.take() {
                    self.last_epoch += 1;
                    self.switches = (epoch(self.last_epoch), workers);
                }
                self.record = None;
                for worker in 0..self.members.len() {
                    self.inboxes[worker].clear();
                    match &mut self.members[worker] {
                        Member::In(part) => part.stream = None,
                        // Its call fails.
                        waiting @ Member::Waiting(_) => *waiting = Member::Out,
                        Member::Out | Member::Finished(_) => {}
                    }
                }
            }
            Step::Restart => {
                // It brings switches to what the journal has.
                self.switches = (self.journal.epoch, self.journal.workers);
                let mut job = Job::resume(self.rules.clone(), self.journal);
                job.tick(self.now);
                self.job = Some(job);
            }
        }
    }

    fn answer(&mut self, answer: Answer) -> Result<(), Failure> {
        match answer {
            Answer::Done => return Ok(()),
            Answer::Later => self.budget.delays -= 1,
            Answer::Never => self.budget.refusals -= 1,
        }
        Err(Failure { reason: "refused".into(), passes: answer == Answer::Later })
    }

    fn stream(&mut self, worker: usize) -> Stream {
        self.streams[worker] += 1;
        Stream(100 * worker as u64 + self.streams[worker])
    }

    fn tell(&mut self, event: Event) {
        if let Some(job) = &mut self.job {
            job.handle(self.now, event);
            self.obey();
        }
    }

    /// A change of the job begins.
    fn request(&mut self, request: Request) {
        self.check_alone();
        let job = self.job.as_mut().expect("it is up");
        let begun = match request {
            Request::Move => job.begin_move(),
            Request::Release => job.begin_release(),
        };
        assert_eq!(begun, Ok(()));
        self.request = Some(request);
    }

    /// One change of a job is under way at a time.
    fn check_alone(&self) {
        let others = (&self.change, &self.record, &self.request);
        assert!(matches!(others, (None, None, None)), "one at a time: {others:?}");
    }

    /// A worker that has stopped says so.
    fn stopped(&mut self, worker: usize) {
        let Member::In(part) = &self.members[worker] else { return };
        if let (Some(stream), Some(stopped)) = (part.stream, part.stopped()) {
            self.tell(Event::Stopped(stream, part.run.epoch, stopped));
        }
    }

    fn obey(&mut self) {
        while let Some(order) = self.job.as_mut().and_then(Job::poll) {
            match order {
                Order::Release => {
                    let needs_it = |part: &Part| part.stream.is_some() && !part.sums.are_all();
                    let here =
                        |member: &Member| matches!(member, Member::In(part) if needs_it(part));
                    let told = |inbox: &VecDeque<Notice>| inbox.iter().any(Notice::is_last);
                    let mut all = self.members.iter().zip(&self.inboxes);
                    assert!(
                        !all.any(|(one, inbox)| here(one) && !told(inbox)),
                        "no worker takes part"
                    );
                    self.request(Request::Release);
                }
                Order::Tell(stream, notice) => {
                    match notice {
                        Notice::Begin(begin) => self.check_run(begin),
                        Notice::Turn(turn) => {
                            let kept = self.journal.progress.assignment;
                            assert_eq!(turn.assignment, kept, "the journal has it");
                        }
                        _ => {}
                    }
                    let at = self.members.iter().position(|member| match member {
                        Member::Waiting(own) => *own == stream,
                        Member::In(part) => part.stream == Some(stream),
                        Member::Out | Member::Finished(_) => false,
                    });
                    if let Some(worker) = at {
                        self.inboxes[worker].push_back(notice);
                    }
                }
                Order::Change(workers) => {
                    self.check_alone();
                    assert!(!workers.is_empty());
                    self.change = Some(workers);
                }
                Order::Record(served) => {
                    self.check_alone();
                    self.record = Some(served);
                }
            }
        }
    }

    /// Nobody is told of a run that the journal does not have, or that switches do not serve; and each is told
    /// the same of it.
    fn check_run(&mut self, begin: Begin) {
        assert_eq!(self.journal.epoch, begin.epoch, "the journal has it before anyone is told");
        assert_eq!(self.switches, (begin.epoch, begin.workers), "switches serve what is told");
        let before = self.journal.handover.map(|handover| handover.before);
        let known = *self.runs.entry(begin.epoch).or_insert(begin);
        assert_eq!(known, begin, "a run is one thing");
        let family = before.and_then(|before| self.families.get(&before).copied());
        self.families.entry(begin.epoch).or_insert(family.unwrap_or(begin.epoch));
    }

    /// A process has ended.
    fn end(&mut self, worker: usize, member: Member) {
        let before = std::mem::replace(&mut self.members[worker], member);
        self.inboxes[worker].clear();
        let stream = match before {
            Member::Waiting(stream) => Some(stream),
            Member::In(part) => part.stream,
            Member::Out | Member::Finished(_) => None,
        };
        if let Some(stream) = stream {
            self.tell(Event::Gone(stream));
        }
    }

    fn finish(&mut self, worker: usize, sums: Sums) {
        for other in self.finished.iter().filter(|other| other.first == sums.first) {
            for (round, (one, two)) in sums.of.iter().zip(&other.of).enumerate() {
                let same = one.is_none() || two.is_none() || one == two;
                assert!(same, "round {round}: {one:?} and {two:?}");
            }
        }
        self.finished.push(sums.clone());
        self.end(worker, Member::Finished(sums));
    }

    /// A worker gives its values of the round that it is in.
    fn contribute(&mut self, worker: usize) {
        let Member::In(part) = &self.members[worker] else { return };
        let round = part.sums.of.len() as u64;
        if self.may_sum(part) {
            *self.values.entry((part.run.epoch, round)).or_insert(WorkerSet::EMPTY) |=
                WorkerSet::of(index(worker));
        }
    }

    fn hear(&mut self, worker: usize, notice: Notice) {
        let ends = self.rules.on_death == OnDeath::End;
        match (notice, &mut self.members[worker]) {
            (Notice::Waiting(_), _) => {}
            (Notice::Begin(run), Member::Waiting(stream)) => {
                assert!(run.workers.contains(index(worker)));
                let rounds = usize::try_from(run.rounds).unwrap();
                let sums = Sums { first: self.families[&run.epoch], of: vec![None; rounds] };
                let stream = Some(*stream);
                let part = Part { stream, run, sums, stopped: None, turn: None };
                self.members[worker] = Member::In(part);
                self.contribute(worker);
            }
            (Notice::Begin(run), Member::In(part)) => {
                assert!(run.workers.contains(index(worker)));
                assert!(run.epoch > part.run.epoch, "runs follow each other");
                assert!(part.stopped.is_some() || run.rounds <= part.sums.of.len() as u64);
                let rounds = usize::try_from(run.rounds).unwrap();
                assert!(part.sums.of.len() >= rounds && part.sums.of.len() <= rounds + 1);
                part.sums.of.truncate(rounds);
                (part.run, part.stopped, part.turn) = (run, None, None);
                self.contribute(worker);
            }
            (Notice::Turn(turn), Member::In(part)) => {
                part.turn = Some(turn);
                let rounds = part.sums.of.len() as u64;
                assert!(turn.number <= rounds + 1, "no iteration ends without it");
                let heard = turn.number == rounds && (turn.reported || !turn.running);
                if part.sums.are_all() && heard && part.stopped.is_none() {
                    part.stop(Stop::Done);
                    self.stopped(worker);
                }
                self.contribute(worker);
            }
            (Notice::Lost(..), Member::In(part)) => {
                if ends && part.sums.are_all() {
                    let sums = part.sums.clone();
                    self.finish(worker, sums);
                } else if ends {
                    self.end(worker, Member::Out);
                } else if part.stopped.is_none() {
                    part.stop(Stop::Stuck);
                    self.stopped(worker);
                }
            }
            (Notice::Left(_, rounds), Member::In(_)) => {
                assert_eq!(rounds, ROUNDS);
            }
            (Notice::Complete, Member::In(part)) => {
                assert!(part.sums.are_all());
                let sums = part.sums.clone();
                self.finish(worker, sums);
            }
            // It is not among those that are left, and so may have other sums.
            (Notice::Refused(_), Member::In(_)) => {
                self.end(worker, Member::Out);
            }
            (Notice::Over(reason), Member::In(part)) => {
                assert!(
                    self.lapses > 1 || !reason.contains("in two runs"),
                    "one more run is enough"
                );
                let sums = part.sums.clone();
                match sums.are_all() {
                    true => self.finish(worker, sums),
                    false => self.end(worker, Member::Out),
                }
            }
            (Notice::Over(_) | Notice::Refused(_), Member::Waiting(_)) => {
                self.end(worker, Member::Out);
            }
            (notice, member) => panic!("{notice:?} comes to {member:?}"),
        }
    }

    /// Forgets what nobody can ask for any more.
    pub(crate) fn forget(&mut self) {
        let part = |member: &Member| match member {
            Member::In(part) => Some(part.run.epoch),
            Member::Out | Member::Waiting(_) | Member::Finished(_) => None,
        };
        let mut last: Vec<Epoch> = self.members.iter().filter_map(part).collect();
        last.push(self.journal.epoch);
        let least = last.into_iter().min().expect("there is one");
        self.values.retain(|(epoch, _), _| *epoch >= least);
        self.runs.retain(|epoch, _| *epoch >= least);
        self.families.retain(|epoch, _| *epoch >= least);
    }

    /// What distinguishes this world from others.
    pub(crate) fn key(&self) -> u128 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let text = format!("{self:?}");
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &text).hash(&mut hasher);
            hasher.finish()
        };
        u128::from(hash(0)) << 64 | u128::from(hash(1))
    }

    /// Follows what must happen until nothing is left to do. Workers that have died are started again.
    pub(crate) fn settle(mut self) -> Result<(), String> {
        self.budget.starts = u8::MAX;
        let mut seen = BTreeSet::new();
        for _ in 0..400 {
            if self.is_over() {
                return Ok(());
            }
            let (due, _) = self.steps();
            let Some(step) = due.first() else {
                return Err(format!("nothing can happen any more in {self:?}"));
            };
            self.step(*step);
            seen.insert(self.key());
        }
        Err(format!("no end comes; {} worlds follow each other", seen.len()))
    }
}
