//! Sleeping until an event occurs on any of several ports, and waking a sleeping thread.
//!
//! A [`Waker`] is one word of state and, only if needed, an eventfd. Threads that wait for memory
//! links only sleep on the word itself (futex). Threads that also wait for descriptors sleep in
//! ppoll(2), with the eventfd among them. A producer first publishes its work and then reads the
//! word. The sleeping thread first announces its sleep in the word and then looks for work.
//! Sequentially consistent order between the two steps, on both sides, ensures that at least one
//! side sees the other: no wake-up is lost, and waking a busy thread costs no system call.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::FrameIo;
use crate::sys::{self, PollFd};

/// The thread is busy and will look for work before it sleeps.
const AWAKE: u32 = 0;
/// [`Waker::wake`] was called; the next sleep ends at once.
const NOTIFIED: u32 = 1;
/// The thread has announced its sleep and is still running, so changing the word suffices. In this
/// state and the states above, a thread must be told of new work.
const WATCHING: u32 = 2;
/// The thread sleeps on the word.
const PARKED: u32 = 3;
/// The thread sleeps in ppoll(2) on the eventfd.
const POLLING: u32 = 4;

/// Longest time that a thread looks for events before it sleeps. Sleeping and being woken by another
/// core takes 5 to 50 µs, in virtual machines more.
const LONGEST_SPIN: Duration = Duration::from_micros(200);

/// Shortest such time. It takes less to sleep.
const SHORTEST_SPIN: Duration = Duration::from_micros(1);

/// How often a thread checks how long it has waited for a core.
const LOOK: Duration = Duration::from_millis(10);

/// Inverse of the fraction of time spent waiting for a core above which the core counts as shared.
const SHARED: u32 = 8;

/// For how long a thread sleeps at once after it has found that it shares its core. It doubles while that
/// goes on.
const RESTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// The length of the turns for which a thread that waits for events asks the scheduler. Endpoints and switches
/// have little to do at a time, and others wait for it.
const TURN: Duration = Duration::from_micros(100);

/// How often a thread that waits for wakers only looks at their words before it lets others run.
const GLANCES: u32 = 32;

#[derive(Debug, Default)]
struct Bell {
    state: AtomicU32,
    descriptor: OnceLock<OwnedFd>,
}

/// Wakes one thread that sleeps in a [`Poller`] or in [`FrameIo::wait`]. Clones wake the same
/// thread.
#[derive(Clone, Debug, Default)]
pub struct Waker(Arc<Bell>);

impl Waker {
    /// A waker that is not used by a thread yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the thread's sleep, or its next one if it is not sleeping. Never blocks.
    ///
    /// The work for the thread must have been published before.
    pub fn wake(&self) {
        match self.0.state.swap(NOTIFIED, Ordering::SeqCst) {
            PARKED => sys::futex_wake(&self.0.state),
            POLLING => {
                let descriptor = self.0.descriptor.get().expect("set before the state says so");
                sys::eventfd_signal(descriptor.as_fd());
            }
            _ => {}
        }
    }

    /// Like [`wake`](Self::wake), for work that the thread itself checks for between announcing a
    /// sleep and sleeping. Does nothing, and writes nothing, while the thread is busy.
    pub(crate) fn wake_if_watching(&self) {
        fence(Ordering::SeqCst);
        if self.0.state.load(Ordering::Relaxed) >= WATCHING {
            self.wake();
        }
    }

    fn descriptor(&self) -> io::Result<RawFd> {
        if self.0.descriptor.get().is_none() {
            // Only one thread sleeps on a waker, so the cell is still empty. If it is not, our
            // descriptor is closed.
            let _ = self.0.descriptor.set(sys::eventfd()?);
        }
        Ok(self.0.descriptor.get().expect("just set").as_raw_fd())
    }

    fn is_notified(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == NOTIFIED
    }

    /// Changes the state from watching to `sleep`. Returns false if there was a wake-up in between.
    fn fall_asleep(&self, sleep: u32) -> bool {
        let state = &self.0.state;
        state.compare_exchange(WATCHING, sleep, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// The events that end one sleep: filled by [`FrameIo::watch`], emptied by [`sleep`](Self::sleep).
///
/// Reusing it avoids allocations, and lets it learn whether to spin: a thread looks for events for as
/// long as that paid lately, and then sleeps. Meanwhile it lets other threads run. Beside threads that
/// compute, it sleeps at once. From its first sleep on, the thread asks for short turns.
#[derive(Debug, Default)]
pub struct Watch {
    wakers: Vec<Waker>,
    descriptors: Vec<PollFd>,
    deadline: Option<Instant>,
    ready: bool,
    spin: Spin,
    /// Whether the thread has asked for short turns.
    asked: bool,
}

/// How long to look for events before a sleep.
///
/// On a core that others use too, it is zero: a thread that spins uses up its share of the core, and the
/// scheduler runs one that sleeps soon after it is woken.
#[derive(Debug, Default)]
struct Spin {
    time: Duration,
    core: Core,
}

/// Whether the thread has to wait for its core.
#[derive(Debug, Default)]
struct Core {
    /// The kernel's statistics of the thread, if there are any.
    statistics: OnceLock<Option<File>>,
    /// The last check, and the thread's total wait then.
    looked: Option<(Instant, Duration)>,
    /// Until when the core counts as shared, and for how long it did last.
    rests_until: Option<Instant>,
    rest: Duration,
}

impl Core {
    fn is_shared(&mut self, now: Instant) -> bool {
        if self.rests_until.is_some_and(|until| now < until) {
            return true;
        }
        if (self.rests_until.is_some() || self.looked.is_none_or(|(at, _)| now >= at + LOOK))
            && let Some(waited) = self.waited()
        {
            self.learn(now, waited);
        }
        self.rests_until.is_some()
    }

    /// For how long the calling thread, the same one at each call, has waited for a core.
    fn waited(&self) -> Option<Duration> {
        let open = || File::open("/proc/thread-self/schedstat").ok();
        let mut text = [0; 64];
        let length = self.statistics.get_or_init(open).as_ref()?.read_at(&mut text, 0).ok()?;
        // Nanoseconds on a core, nanoseconds of waiting for one, number of turns.
        let field = str::from_utf8(&text[..length]).ok()?.split_whitespace().nth(1)?;
        field.parse().ok().map(Duration::from_nanos)
    }

    /// Records the total wait at `now`.
    fn learn(&mut self, now: Instant, waited: Duration) {
        if let Some(until) = self.rests_until.take() {
            // The wait during a rest says little about spinning, so the thread spins again after it.
            if now > until + self.rest {
                self.rest = Duration::ZERO;
            }
        } else if let Some((at, before)) = self.looked {
            if SHARED * waited.saturating_sub(before) > now - at {
                self.rest = (2 * self.rest).clamp(RESTS[0], RESTS[1]);
                self.rests_until = Some(now + self.rest);
            } else {
                self.rest = Duration::ZERO;
            }
        }
        self.looked = Some((now, waited));
    }
}

impl Spin {
    /// For how long to spin.
    fn time(&mut self, now: Instant) -> Duration {
        if self.time.is_zero() || self.core.is_shared(now) { Duration::ZERO } else { self.time }
    }

    /// An event occurred after the thread had waited for so long, or `None` occurred.
    fn learn(&mut self, event: Option<Duration>) {
        self.time = match event.filter(|waited| *waited <= LONGEST_SPIN) {
            Some(waited) => self.time.max(2 * waited).min(LONGEST_SPIN),
            // Halved, so that a thread with rare events soon sleeps at once.
            None => self.time / 2,
        };
        if self.time < SHORTEST_SPIN {
            self.time = Duration::ZERO;
        }
    }
}

impl Watch {
    /// Creates an empty set of events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the sleep when `waker` is woken. The calling thread must be the only one that sleeps on
    /// it. After this call, check for the work that the waker announces, and call
    /// [`ready`](Self::ready) if there is any.
    pub fn waker(&mut self, waker: &Waker) {
        if self.wakers.iter().any(|known| Arc::ptr_eq(&known.0, &waker.0)) {
            return;
        }
        if waker.0.state.swap(WATCHING, Ordering::SeqCst) == NOTIFIED {
            self.ready = true;
        }
        fence(Ordering::SeqCst);
        self.wakers.push(waker.clone());
    }

    /// Ends the sleep when poll(2) reports one of `events` for `descriptor`.
    pub fn descriptor(&mut self, descriptor: &impl AsFd, events: i16) {
        let fd = descriptor.as_fd().as_raw_fd();
        self.descriptors.push(PollFd { fd, events, revents: 0 });
    }

    /// Ends the sleep after `delay` at the latest.
    pub fn due_in(&mut self, delay: Duration) {
        if delay.is_zero() {
            self.ready = true;
        } else if let Some(due) = Instant::now().checked_add(delay) {
            self.deadline = Some(self.deadline.map_or(due, |known| known.min(due)));
        }
    }

    /// There is work already: do not sleep.
    pub fn ready(&mut self) {
        self.ready = true;
    }

    /// Sleeps until one of the events occurs or `timeout` has passed, then clears the events.
    /// Spurious returns are possible.
    ///
    /// # Errors
    ///
    /// Errors of ppoll(2) and eventfd(2); [`io::ErrorKind::InvalidInput`] for a sleep that no event
    /// could end.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if let Some(timeout) = timeout {
            self.due_in(timeout);
        }
        let result = if self.ready { Ok(()) } else { self.wait() };
        for waker in self.wakers.drain(..) {
            waker.0.state.swap(AWAKE, Ordering::SeqCst);
        }
        self.descriptors.clear();
        self.deadline = None;
        self.ready = false;
        result
    }

    fn wait(&mut self) -> io::Result<()> {
        if self.descriptors.is_empty() && self.wakers.is_empty() && self.deadline.is_none() {
            let reason = "a sleep without waker, descriptor and time limit would never end";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        if !self.asked {
            self.asked = true;
            if let Err(error) = sys::ask_for_turns(TURN) {
                tracing::debug!("the scheduler grants no short turns: {error}");
            }
        }
        let start = Instant::now();
        let event = self.look(start)? || self.sleep_unready()?;
        self.spin.learn(event.then(|| start.elapsed()));
        Ok(())
    }

    /// Looks for events for a while. Returns whether there was one.
    fn look(&mut self, start: Instant) -> io::Result<bool> {
        let spin = self.spin.time(start);
        if spin.is_zero() {
            return Ok(false);
        }
        let end = start + spin;
        let end = self.deadline.map_or(end, |deadline| deadline.min(end));
        loop {
            let glances = if self.descriptors.is_empty() { GLANCES } else { 1 };
            for _ in 0..glances {
                if self.wakers.iter().any(Waker::is_notified) {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            // The thread that causes the event may wait for this core.
            thread::yield_now();
            let now = Instant::now();
            if !self.descriptors.is_empty() {
                sys::ppoll(&mut self.descriptors, Some(Duration::ZERO))?;
                if self.descriptors.iter().any(|polled| polled.revents != 0) {
                    return Ok(true);
                }
            }
            if now >= end {
                return Ok(false);
            }
        }
    }

    /// Sleeps. Returns whether there was an event.
    fn sleep_unready(&mut self) -> io::Result<bool> {
        if let ([waker], []) = (&self.wakers[..], &self.descriptors[..]) {
            if waker.fall_asleep(PARKED) {
                sys::futex_wait(&waker.0.state, PARKED, self.left());
            }
            return Ok(waker.is_notified());
        }
        let own = self.descriptors.len();
        for waker in &self.wakers {
            let fd = waker.descriptor()?;
            if !waker.fall_asleep(POLLING) {
                return Ok(true);
            }
            self.descriptors.push(PollFd { fd, events: libc::POLLIN, revents: 0 });
        }
        let left = self.left();
        sys::ppoll(&mut self.descriptors, left)?;
        for (waker, polled) in self.wakers.iter().zip(&self.descriptors[own..]) {
            if polled.revents != 0
                && let Some(descriptor) = waker.0.descriptor.get()
            {
                sys::eventfd_drain(descriptor.as_fd());
            }
        }
        Ok(self.descriptors.iter().any(|polled| polled.revents != 0))
    }

    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// Lets one thread wait for many ports of any kind and for other threads.
///
/// ```
/// use std::time::Duration;
/// use tributary_netio::{FrameIo, Poller, memory};
///
/// # fn main() -> std::io::Result<()> {
/// let mut poller = Poller::new();
/// let waker = poller.waker().clone(); // for other threads
/// let (mut port, mut far_end) = memory::link(64, poller.waker(), &Default::default());
/// far_end.send(&[0; 60])?;
/// far_end.flush()?;
/// poller.add(&mut port)?;
/// poller.wait(Some(Duration::from_secs(1)))?; // a frame is there: returns at once
/// assert_eq!(port.receive(32, &mut |frame| assert_eq!(frame.len(), 60))?, 1);
/// waker.wake();
/// poller.add(&mut port)?;
/// poller.wait(None)?; // the waker fired: returns at once
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Poller {
    waker: Waker,
    watch: Watch,
}

impl Poller {
    /// A poller with a new waker.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends [`wait`](Self::wait) from any thread.
    ///
    /// Sleep is cheapest with memory links that were created with this waker
    /// ([`memory::link`](crate::memory::link)).
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Flushes `io` and adds its events to the next [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// Errors of the port.
    pub fn add(&mut self, io: &mut (impl FrameIo + ?Sized)) -> io::Result<()> {
        io.flush()?;
        io.watch(&mut self.watch)
    }

    /// Blocks until one of the ports added since the last wait may have a frame (or room, after
    /// back-pressure), the waker is woken, or `timeout` has passed. Spurious returns are possible.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.watch.waker(&self.waker);
        self.watch.sleep(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_follows_what_paid_lately() {
        let mut spin = Spin::default();
        spin.learn(Some(Duration::from_micros(30)));
        assert_eq!(spin.time, Duration::from_micros(60));
        spin.learn(Some(Duration::from_micros(150)));
        assert_eq!(spin.time, LONGEST_SPIN);
        // Neither a time limit nor a late event would have made it worthwhile.
        for event in [None, Some(Duration::from_millis(3))] {
            let before = spin.time;
            spin.learn(event);
            assert_eq!(spin.time, before / 2);
        }
        for _ in 0..10 {
            spin.learn(None);
        }
        assert_eq!(spin.time, Duration::ZERO);
    }

    #[test]
    fn threads_that_wait_for_their_core_sleep_at_once_for_longer_and_longer() {
        let (mut core, mut now, mut waited) = (Core::default(), Instant::now(), Duration::ZERO);
        let mut look = |core: &mut Core, after: Duration, more: u64| {
            now += after;
            waited += Duration::from_millis(more);
            core.learn(now, waited);
            core.rests_until.map(|until| until - now)
        };
        assert_eq!(look(&mut core, Duration::ZERO, 0), None);
        assert_eq!(look(&mut core, LOOK, 1), None);
        for rest in [100, 200, 400, 800, 1000, 1000].map(Duration::from_millis) {
            assert_eq!(look(&mut core, LOOK, 2), Some(rest));
            assert_eq!(look(&mut core, rest, 50), None, "it spins after a rest");
        }
        assert_eq!(look(&mut core, LOOK, 1), None);
        assert_eq!(look(&mut core, LOOK, 2), Some(RESTS[0]));
        // The next contention comes long after the rest.
        assert_eq!(look(&mut core, 3 * RESTS[0], 0), None);
        assert_eq!(look(&mut core, LOOK, 2), Some(RESTS[0]));
        let now = Instant::now();
        core.rests_until = Some(now + RESTS[0]);
        let mut spin = Spin { time: LONGEST_SPIN, core };
        assert_eq!(spin.time(now), Duration::ZERO);
    }

    #[test]
    fn waiting_for_a_core_is_not_running_on_one() {
        // Nanoseconds on a core and of waiting for one, in sum the time that the thread was not asleep.
        let read = || std::fs::read_to_string("/proc/thread-self/schedstat");
        let Ok(before) = read() else {
            println!("skipped: this kernel has no /proc/thread-self/schedstat");
            return;
        };
        let core = Core::default();
        let waited = core.waited().unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let awake = start.elapsed();
        let more = core.waited().unwrap() - waited;
        let after = read().unwrap();
        let [ran_before, ran] = [before, after].map(|text| {
            let nanos = text.split(' ').next().unwrap().parse().unwrap();
            Duration::from_nanos(nanos)
        });
        let rest = awake.saturating_sub(ran - ran_before);
        assert!(more.abs_diff(rest) < Duration::from_millis(50), "{more:?} of {awake:?}, {rest:?}");
    }

    #[test]
    fn an_event_ends_a_spin_and_a_time_limit_bounds_it() {
        let waker = Waker::new();
        let mut watch = Watch::new();
        watch.spin.time = Duration::from_secs(60);
        let other = waker.clone();
        let thread = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            other.wake();
        });
        let start = Instant::now();
        watch.waker(&waker);
        watch.sleep(None).unwrap();
        thread.join().unwrap();
        watch.spin.time = Duration::from_secs(60);
        watch.waker(&waker);
        watch.sleep(Some(Duration::from_millis(20))).unwrap();
        let waited = start.elapsed();
        assert!(waited >= Duration::from_millis(40), "{waited:?}");
        assert!(waited < Duration::from_secs(30), "{waited:?}");
    }
}
