//! Processor time of endpoints and switches.
//!
//! Without processors, an endpoint or switch handles a frame in no time. With processors, each
//! frame that one receives or sends takes a core for a while, and all share the same cores, like
//! the threads and processes of a run on one machine. Each is one thread. Threads that have
//! something to do take turns on the cores, first come, first served. A turn ends when the thread
//! has nothing left to do, or after a slice of time if others wait. A host's timers fire in its turns,
//! after it has handled all frames that arrived before: like a driver, which cannot see the time while
//! its process waits.
//!
//! Busy loops may share the cores: they always have something to do. Loops and other threads get the same
//! time, as by a fair scheduler: of a thread and a loop, the one that has used less comes first. A
//! thread that slept has used no less than a slice below the loops, and interrupts a loop that has used
//! half a slice more than it.

use std::collections::VecDeque;
use std::time::Duration;

/// The processors of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processing {
    /// Number of cores, at least one.
    pub cores: usize,
    /// Time for each frame that a host receives or sends.
    pub host: Duration,
    /// Time for each frame that a switch receives or sends.
    pub switch: Duration,
    /// Most frames that a host or switch sends before it looks for other work.
    pub batch: u32,
    /// Longest turn of a host or switch while others wait; with zero, a turn is one piece of work: a
    /// received frame, or a batch of sent ones.
    pub slice: Duration,
    /// Number of busy loops beside the hosts and switches.
    pub busy: usize,
}

impl Processing {
    /// Cores of a machine with Linux, where a process sends all that it may, and keeps its core for
    /// about a millisecond while others wait.
    #[must_use]
    pub const fn like_linux(cores: usize, host: Duration, switch: Duration) -> Self {
        let slice = Duration::from_millis(1);
        Self { cores, host, switch, batch: u32::MAX, slice, busy: 0 }
    }
}

/// Something that a thread is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Handle a frame that arrived at a port; hosts have only port 0.
    Frame(u16, Vec<u8>),
    /// Fire the timers that are due. Frames are handled first, also those that arrive later.
    Timer,
    /// Send what there is to send in a direction.
    Send(usize),
}

/// Cores, and the threads of hosts and switches.
#[derive(Debug)]
pub(super) struct Processors {
    /// When each core is free, if no thread has its turn there.
    cores: Vec<Option<u64>>,
    batch: u32,
    slice: u64,
    threads: Vec<Thread>,
    /// Threads that wait for a core.
    ready: VecDeque<usize>,
    /// The first loop; all others follow.
    loops: usize,
    /// The thread whose turn is being simulated.
    running: Option<usize>,
}

/// The thread of a host or switch, or a busy loop.
#[derive(Debug, Default)]
struct Thread {
    /// Nanoseconds per frame.
    cost: u64,
    work: VecDeque<Work>,
    state: State,
    /// In its turn: until when it is busy with what it has begun.
    busy: u64,
    /// Beside loops: the time that it has used, up to `busy`.
    used: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Idle,
    Ready,
    /// It has its turn on a core, until this time if others wait.
    Running {
        core: usize,
        until: u64,
    },
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Processors {
    /// For hosts, switches after them, and then busy loops.
    pub(super) fn new(processing: Processing, hosts: usize, switches: usize) -> Self {
        let thread = |cost| Thread { cost: nanos(cost), ..Thread::default() };
        let hosts = (0..hosts).map(|_| thread(processing.host));
        let switches = (0..switches).map(|_| thread(processing.switch));
        let loops = (0..processing.busy).map(|_| thread(Duration::ZERO));
        let others = hosts.len() + switches.len();
        Self {
            cores: vec![Some(0); processing.cores.max(1)],
            batch: processing.batch.max(1),
            slice: nanos(processing.slice),
            threads: hosts.chain(switches).chain(loops).collect(),
            ready: VecDeque::new(),
            loops: others,
            running: None,
        }
    }

    /// Starts the busy loops. Returns which of them are to [`take`](Self::take) a turn, and when: the
    /// turns of the cores do not end together.
    pub(super) fn start_loops(&mut self, now: u64) -> Vec<(usize, u64)> {
        let mut turns = Vec::new();
        let cores = self.cores.len() as u64;
        for thread in self.loops..self.threads.len() {
            self.threads[thread].busy = now;
            if let Some(core) = self.cores.iter().position(Option::is_some) {
                self.cores[core] = None;
                let until = now + self.slice.max(1) * (core as u64 + 1) / cores;
                self.threads[thread].state = State::Running { core, until };
                turns.push((thread, until));
            } else {
                self.threads[thread].state = State::Ready;
            }
        }
        turns
    }

    /// Gives a thread something to do. If a core is free, returns when the thread is to
    /// [`take`](Self::take) it.
    pub(super) fn ask(&mut self, thread: usize, now: u64, work: Work) -> Option<u64> {
        let its = &mut self.threads[thread];
        match work {
            Work::Frame(..) => {
                let before = its.work.iter().position(|other| *other == Work::Timer);
                its.work.insert(before.unwrap_or(its.work.len()), work);
            }
            Work::Timer | Work::Send(_) if its.work.contains(&work) => {}
            Work::Timer | Work::Send(_) => its.work.push_back(work),
        }
        if its.state != State::Idle {
            return None;
        }
        if let Some(least) = (self.loops..self.threads.len()).map(|it| self.used(it, now)).min() {
            let its = &mut self.threads[thread];
            its.used = its.used.max(least.saturating_sub(self.slice));
        }
        let free = |core: &usize| self.cores[*core].is_some();
        if let Some(core) = (0..self.cores.len()).filter(free).min_by_key(|&it| self.cores[it]) {
            let free = self.cores[core].take().unwrap_or(0);
            return Some(self.begin(thread, core, now.max(free)));
        }
        if let Some(core) = self.interrupt(self.threads[thread].used, now) {
            return Some(self.begin(thread, core, now));
        }
        self.threads[thread].state = State::Ready;
        self.ready.push_back(thread);
        None
    }

    /// The time that a thread has used.
    fn used(&self, thread: usize, now: u64) -> u64 {
        let Thread { state, busy, used, .. } = self.threads[thread];
        match state {
            State::Running { .. } if thread >= self.loops => used + now.saturating_sub(busy),
            _ => used,
        }
    }

    /// Ends the turn of the loop that has used most, if that is much more than `used`. Returns its core.
    fn interrupt(&mut self, used: u64, now: u64) -> Option<usize> {
        let its_core = |thread: usize| match self.threads[thread].state {
            State::Running { core, .. } => Some((self.used(thread, now), thread, core)),
            _ => None,
        };
        let (most, thread, core) = (self.loops..self.threads.len()).filter_map(its_core).max()?;
        if most <= used + self.slice / 2 {
            return None;
        }
        let its = &mut self.threads[thread];
        (its.state, its.used, its.busy) = (State::Ready, most, now);
        Some(core)
    }

    /// Begins a turn. Returns when its first piece of work is to be taken.
    fn begin(&mut self, thread: usize, core: usize, now: u64) -> u64 {
        let slice = if thread >= self.loops { self.slice.max(1) } else { self.slice };
        let until = now.saturating_add(slice);
        let its = &mut self.threads[thread];
        its.state = State::Running { core, until };
        its.busy = now;
        self.next(thread, now)
    }

    /// When the next piece of work is to be taken: frames have been handled then, and loops have
    /// used their slice.
    fn next(&self, thread: usize, now: u64) -> u64 {
        let Thread { cost, state, work, .. } = &self.threads[thread];
        match (work.front(), *state) {
            (_, State::Running { until, .. }) if thread >= self.loops => until,
            (Some(Work::Frame(..)), _) => now + cost,
            _ => now,
        }
    }

    /// Takes the next piece of work of a thread in its turn. Call [`rest`](Self::rest) when it is
    /// done. Loops have no work.
    pub(super) fn take(&mut self, thread: usize, now: u64) -> Option<Work> {
        if thread >= self.loops {
            return None;
        }
        self.running = Some(thread);
        self.spend(thread, now);
        self.threads[thread].work.pop_front()
    }

    fn spend(&mut self, thread: usize, until: u64) {
        let its = &mut self.threads[thread];
        its.used += until - its.busy;
        its.busy = until;
    }

    /// Whether a thread may send at once: its turn is being simulated.
    pub(super) fn is_running(&self, thread: usize) -> bool {
        self.running == Some(thread)
    }

    /// Most frames of a [`Work::Send`].
    pub(super) fn batch(&self) -> u32 {
        self.batch
    }

    /// Counts a frame that a thread sends in its turn. Returns when it can leave.
    pub(super) fn send(&mut self, thread: usize) -> u64 {
        let Thread { cost, busy, .. } = self.threads[thread];
        self.spend(thread, busy + cost);
        busy + cost
    }

    /// Continues or ends a thread's turn after a piece of work, or a loop's that was to end `now`. Returns
    /// which thread is to take its work on this core next, and when.
    pub(super) fn rest(&mut self, thread: usize, now: u64) -> Option<(usize, u64)> {
        self.running = None;
        let State::Running { core, until } = self.threads[thread].state else { return None };
        let is_loop = thread >= self.loops;
        if is_loop {
            if until != now {
                // It was interrupted since, and has another turn.
                return None;
            }
            self.spend(thread, now);
        }
        let Thread { work, busy, .. } = &self.threads[thread];
        let (now, done) = (*busy, work.is_empty() && !is_loop);
        let next = self.first();
        let others = next.is_some_and(|it| it < self.loops || self.before(it, thread));
        if !done && !is_loop && (now < until || !others) {
            return Some((thread, self.next(thread, now)));
        }
        self.threads[thread].state = if done { State::Idle } else { State::Ready };
        if !done && !is_loop {
            self.ready.push_back(thread);
        }
        let Some(next) = self.first() else {
            self.cores[core] = Some(now);
            return None;
        };
        if next < self.loops {
            self.ready.pop_front();
        }
        Some((next, self.begin(next, core, now)))
    }

    /// Whether a waiting loop comes before a thread.
    fn before(&self, busy_loop: usize, thread: usize) -> bool {
        self.threads[busy_loop].used < self.threads[thread].used
    }

    /// Who waits and is to have the next turn.
    fn first(&self) -> Option<usize> {
        let waiting = |&it: &usize| self.threads[it].state == State::Ready;
        let loops = (self.loops..self.threads.len()).filter(waiting);
        let busy_loop = loops.min_by_key(|&it| self.threads[it].used);
        match (self.ready.front(), busy_loop) {
            (Some(&thread), Some(busy_loop)) if self.before(busy_loop, thread) => Some(busy_loop),
            (Some(&thread), _) => Some(thread),
            (None, busy_loop) => busy_loop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: [u64; 2] = [10, 4];

    /// Two hosts and a switch on these cores.
    fn three(cores: usize, slice: u64) -> Processors {
        let [host, switch, slice] = [COSTS[0], COSTS[1], slice].map(Duration::from_nanos);
        Processors::new(Processing { cores, host, switch, batch: 1, slice, busy: 0 }, 2, 1)
    }

    fn frame() -> Work {
        Work::Frame(0, Vec::new())
    }

    /// Lets the threads do all of their work. Returns who took a piece of work when.
    fn run(both: &mut Processors, begun: &[(usize, Option<u64>)]) -> Vec<(usize, u64)> {
        let mut due: Vec<_> = begun.iter().filter_map(|&(who, at)| Some((at?, who))).collect();
        let mut course = Vec::new();
        while let Some(&(at, who)) = due.iter().min() {
            due.retain(|&other| other != (at, who));
            assert!(both.take(who, at).is_some());
            course.push((who, at));
            due.extend(both.rest(who, at).map(|(next, at)| (at, next)));
        }
        course
    }

    #[test]
    fn threads_share_cores_and_each_handles_one_frame_at_a_time() {
        let mut both = three(2, 0);
        let begun = [0, 1, 2, 0].map(|who| (who, both.ask(who, 0, frame())));
        assert_eq!(begun.map(|(_, at)| at), [Some(10), Some(10), None, None]);
        assert_eq!(run(&mut both, &begun), [(0, 10), (1, 10), (2, 14), (0, 20)]);
        assert_eq!(both.ask(1, 100, frame()), Some(110));
    }

    #[test]
    fn a_turn_lasts_a_slice_while_others_wait() {
        let order = |slice| {
            let mut one = three(1, slice);
            let begun = [0, 0, 0, 1, 1].map(|who| (who, one.ask(who, 0, frame())));
            run(&mut one, &begun).into_iter().map(|(who, _)| who).collect::<Vec<_>>()
        };
        assert_eq!(order(0), [0, 1, 0, 1, 0]);
        assert_eq!(order(15), [0, 0, 1, 1, 0]);
        assert_eq!(order(1000), [0, 0, 0, 1, 1]);
    }

    /// One core, a host and two loops.
    fn beside_loops() -> (Processors, Vec<(u64, usize)>) {
        let host = Duration::from_nanos(COSTS[0]);
        let slice = Duration::from_nanos(100);
        let processing = Processing { cores: 1, host, switch: host, batch: 1, slice, busy: 2 };
        let mut shared = Processors::new(processing, 1, 0);
        let loops = shared.start_loops(0).into_iter().map(|(who, at)| (at, who)).collect();
        (shared, loops)
    }

    /// Lets all have turns until a time. Returns who took a piece of work, or ended a slice, when.
    fn turns(shared: &mut Processors, due: &mut Vec<(u64, usize)>, end: u64) -> Vec<(usize, u64)> {
        let mut course = Vec::new();
        while let Some(&(at, who)) = due.iter().min().filter(|(at, _)| *at <= end) {
            due.retain(|&other| other != (at, who));
            let work = shared.take(who, at);
            let next = shared.rest(who, at);
            if work.is_some() || next.is_some() {
                course.push((who, at));
            }
            due.extend(next.map(|(next, at)| (at, next)));
        }
        course
    }

    #[test]
    fn a_thread_that_slept_interrupts_a_loop() {
        let (mut shared, mut due) = beside_loops();
        assert_eq!(turns(&mut shared, &mut due, 250), [(1, 100), (2, 200)]);
        // The loop has used 160, the other one 100; the thread counts as if it had used none.
        assert_eq!(shared.ask(0, 260, frame()), Some(270));
        due.push((270, 0));
        assert_eq!(turns(&mut shared, &mut due, 480), [(0, 270), (2, 370), (1, 470)]);
        assert_eq!([1, 2].map(|it| shared.used(it, 470)), [260, 200]);
    }

    #[test]
    fn threads_and_loops_get_the_same_time() {
        let (mut shared, mut due) = beside_loops();
        for _ in 0..10_000 {
            if let Some(at) = shared.ask(0, 0, frame()) {
                due.push((at, 0));
            }
        }
        turns(&mut shared, &mut due, 30_000);
        for thread in 0..3 {
            assert!(
                (9_800..=10_200).contains(&shared.threads[thread].used),
                "{:?}",
                shared.threads[thread].used
            );
        }
    }

    #[test]
    fn timers_fire_after_all_frames() {
        let mut one = three(1, 1000);
        assert_eq!(one.ask(0, 0, frame()), Some(10));
        for work in [Work::Timer, Work::Send(1), frame(), Work::Timer] {
            assert_eq!(one.ask(0, 0, work), None);
        }
        let all: Vec<_> = std::iter::from_fn(|| one.take(0, 0)).collect();
        assert_eq!(all, [frame(), frame(), Work::Timer, Work::Send(1)]);
    }

    #[test]
    fn sending_takes_time_in_the_turn() {
        let mut one = three(1, 100);
        let begun = one.ask(0, 0, Work::Send(7));
        assert_eq!(begun, Some(0), "there may be nothing to send");
        assert_eq!(one.ask(0, 0, Work::Send(7)), None, "it is already asked");
        assert_eq!(one.ask(2, 0, frame()), None);
        assert_eq!(one.take(0, 0), Some(Work::Send(7)));
        assert!(one.is_running(0) && !one.is_running(2));
        assert_eq!([one.send(0), one.send(0)], [10, 20]);
        assert_eq!(one.rest(0, 0), Some((2, 24)));
    }
}
