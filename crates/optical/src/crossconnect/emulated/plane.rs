//! Forwards frames between ports as the mirrors stand.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tributary_netio::{FrameIo, Poller, Waker};

use super::Mirrors;
use tributary_model::circuits::{Circuits, Invalid, Port};

/// Frames per batch.
const BATCH: usize = 64;

/// Interval of checks of the stop flag.
const TICK: Duration = Duration::from_millis(50);

/// Pause after an error of a port.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Limit of frames that are discarded when a port gets light. It is more than a socket's buffer holds,
/// and prevents a flood of new frames from holding up the other ports.
const DISCARDED: usize = 1 << 14;

/// The ports of an emulated cross-connect, and the mirrors between them.
pub struct Plane {
    mirrors: Mirrors,
    ports: Vec<Fibre>,
    poller: Poller,
    requests: Receiver<Request>,
    /// Changes to answer at the time when their circuits carry light.
    waiting: Vec<(Duration, Answer)>,
    counts: Arc<Counts>,
}

/// Frames with a path.
#[derive(Debug, Default)]
struct Counts {
    forwarded: AtomicU64,
    lost: AtomicU64,
}

/// What is behind a port.
struct Fibre {
    name: String,
    io: Box<dyn FrameIo>,
    /// When to try again, after an error.
    broken: Option<Duration>,
}

type Answer = oneshot::Sender<Result<(), Invalid>>;

enum Request {
    Change(Circuits, Answer),
    Circuits(oneshot::Sender<Circuits>),
}

/// Changes the circuits of a [`Plane`] from other threads.
#[derive(Clone, Debug)]
pub struct Control {
    ports: u16,
    requests: Sender<Request>,
    waker: Waker,
    counts: Arc<Counts>,
}

/// The plane does not run any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the cross-connect is ending")]
pub struct Ended;

impl Control {
    /// Number of ports.
    #[must_use]
    pub fn ports(&self) -> u16 {
        self.ports
    }

    /// Frames with a path so far: those that were forwarded, and those that were lost.
    #[must_use]
    pub fn frames(&self) -> (u64, u64) {
        let Counts { forwarded, lost } = &*self.counts;
        (forwarded.load(Ordering::Relaxed), lost.load(Ordering::Relaxed))
    }

    /// Changes to `next`. Returns when all of its circuits carry light, or at once if they are
    /// impossible.
    ///
    /// # Errors
    /// If the plane has ended.
    pub async fn change(&self, next: Circuits) -> Result<Result<(), Invalid>, Ended> {
        self.ask(|answer| Request::Change(next, answer)).await
    }

    /// The circuits that carry light now.
    ///
    /// # Errors
    /// If the plane has ended.
    pub async fn circuits(&self) -> Result<Circuits, Ended> {
        self.ask(Request::Circuits).await
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Ended> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).map_err(|_| Ended)?;
        self.waker.wake();
        answered.await.map_err(|_| Ended)
    }
}

impl Plane {
    /// A plane with these ports, by the names of their interfaces. They are ports 1, 2, … of `mirrors`.
    ///
    /// # Panics
    /// If there are not as many ports as mirrors.
    #[must_use]
    pub fn new(mirrors: Mirrors, ports: Vec<(String, Box<dyn FrameIo>)>) -> (Self, Control) {
        assert_eq!(ports.len(), usize::from(mirrors.ports()), "one mirror per port");
        let poller = Poller::new();
        let (sender, requests) = channel();
        let (counts, waker) = (Arc::<Counts>::default(), poller.waker().clone());
        let own = Arc::clone(&counts);
        let control = Control { ports: mirrors.ports(), requests: sender, waker, counts: own };
        let ports = ports.into_iter().map(|(name, io)| Fibre { name, io, broken: None }).collect();
        let plane = Self { mirrors, ports, poller, requests, waiting: Vec::new(), counts };
        (plane, control)
    }

    /// Forwards frames until `stop` is raised. Returns the number of frames with a path that were
    /// lost because an interface was full, or its MTU too small. An interface that fails is tried again.
    ///
    /// # Errors
    /// If waiting for frames fails.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<u64> {
        let start = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = start.elapsed();
            self.take_requests(now);
            self.settle(now);
            if !self.forward(now) {
                self.sleep(now)?;
            }
        }
        Ok(self.counts.lost.load(Ordering::Relaxed))
    }

    fn take_requests(&mut self, now: Duration) {
        for request in self.requests.try_iter() {
            // Nobody may be waiting for an answer any more.
            match request {
                Request::Circuits(answer) => drop(answer.send(self.mirrors.circuits())),
                Request::Change(next, answer) => match self.mirrors.change(now, &next) {
                    Ok(light) => self.waiting.push((light, answer)),
                    Err(reason) => drop(answer.send(Err(reason))),
                },
            }
        }
    }

    /// Gives light to ports whose mirrors have stopped.
    fn settle(&mut self, now: Duration) {
        for port in self.mirrors.settle(now) {
            let fibre = &mut self.ports[usize::from(port.0) - 1];
            let mut discarded = 0;
            while discarded < DISCARDED {
                match fibre.io.receive(BATCH, &mut |_| {}) {
                    Ok(0) | Err(_) => break,
                    Ok(frames) => discarded += frames,
                }
            }
        }
        for (_, answer) in self.waiting.extract_if(.., |(light, _)| *light <= now) {
            // The client may have gone.
            let _: Result<(), _> = answer.send(Ok(()));
        }
    }

    /// Forwards a batch from each port; false if there were no frames.
    fn forward(&mut self, now: Duration) -> bool {
        let mut busy = false;
        for from in 0..self.ports.len() {
            if self.ports[from].broken.is_some_and(|until| now < until) {
                continue;
            }
            let port = Port(u16::try_from(from + 1).expect("as many as mirrors"));
            let path = self.mirrors.path(port).map(|to| usize::from(to.0) - 1);
            let received = match path {
                None => self.ports[from].io.receive(BATCH, &mut |_| {}),
                Some(to) => {
                    let [from, to] =
                        self.ports.get_disjoint_mut([from, to]).expect("a circuit has two ends");
                    let mut lost = 0;
                    let mut failure = None;
                    let received = from.io.receive(BATCH, &mut |frame| match to.io.send(frame) {
                        Ok(true) => {}
                        Ok(false) => lost += 1,
                        Err(error) if error.kind() == io::ErrorKind::InvalidInput => lost += 1,
                        Err(error) => failure = Some(error),
                    });
                    if let Some(error) = failure.or_else(|| to.io.flush().err()) {
                        to.fail(now, &error);
                    }
                    if let Ok(frames @ 1..) = received {
                        let forwarded = (frames as u64).saturating_sub(lost);
                        self.counts.forwarded.fetch_add(forwarded, Ordering::Relaxed);
                        self.counts.lost.fetch_add(lost, Ordering::Relaxed);
                    }
                    received
                }
            };
            match received {
                Ok(frames) => {
                    busy |= frames > 0;
                    self.ports[from].broken = None;
                }
                Err(error) => self.ports[from].fail(now, &error),
            }
        }
        busy
    }

    fn sleep(&mut self, now: Duration) -> io::Result<()> {
        let mut wake = now + TICK;
        for fibre in &mut self.ports {
            match fibre.broken.filter(|until| now < *until) {
                Some(until) => wake = wake.min(until),
                None => {
                    if let Err(error) = self.poller.add(&mut fibre.io) {
                        fibre.fail(now, &error);
                    }
                }
            }
        }
        if let Some(due) = self.mirrors.due() {
            wake = wake.min(due);
        }
        self.poller.wait(Some(wake - now))
    }
}

impl Fibre {
    fn fail(&mut self, now: Duration, error: &io::Error) {
        if self.broken.is_none() {
            tracing::warn!("network interface `{}` fails: {error}; it is tried again", self.name);
        }
        self.broken = Some(now + PAUSE_AFTER_ERROR);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use tributary_netio::memory::{MemoryPort, pair};

    use super::*;

    const OUTAGE: Duration = Duration::from_millis(60);

    struct Running {
        control: Control,
        hosts: Vec<MemoryPort>,
        stop: Arc<AtomicBool>,
        thread: Option<thread::JoinHandle<io::Result<u64>>>,
    }

    impl Running {
        fn new(ports: u16) -> Self {
            let (io, hosts): (Vec<_>, Vec<_>) = (0..ports).map(|_| pair()).unzip();
            let io = io.into_iter().map(|io| ("memory".to_owned(), Box::new(io) as _)).collect();
            let (plane, control) = Plane::new(Mirrors::new(ports, OUTAGE), io);
            let stop = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&stop);
            let thread = thread::spawn(move || plane.run(&flag));
            Self { control, hosts, stop, thread: Some(thread) }
        }

        fn send(&mut self, from: u16, tag: u8) {
            let host = &mut self.hosts[usize::from(from) - 1];
            assert!(host.send(&[tag; 60]).unwrap());
            host.flush().unwrap();
        }

        /// The tags of the frames that arrived at a host.
        fn received(&mut self, at: u16) -> Vec<u8> {
            let mut tags = Vec::new();
            self.hosts[usize::from(at) - 1].receive(256, &mut |frame| tags.push(frame[0])).unwrap();
            tags
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            let ended = self.thread.take().unwrap().join().unwrap();
            assert_eq!(ended.unwrap(), 0, "no interface was full");
        }
    }

    fn circuits(pairs: &[(u16, u16)]) -> Circuits {
        Circuits::new(pairs.iter().map(|&(a, b)| (Port(a), Port(b)))).unwrap()
    }

    impl Running {
        /// Sends a frame from every port, waits, and returns where they arrived: (from, at).
        fn frames(&mut self) -> Vec<(u8, u16)> {
            let ports = u16::try_from(self.hosts.len()).unwrap();
            for port in 1..=ports {
                self.send(port, u8::try_from(port).unwrap());
            }
            thread::sleep(Duration::from_millis(20));
            let arrived = |at| self.received(at).into_iter().map(move |from| (from, at));
            (1..=ports).flat_map(arrived).collect()
        }
    }

    #[tokio::test]
    async fn frames_pass_along_circuits_only() {
        let mut running = Running::new(5);
        assert_eq!(running.frames(), []);
        running.control.change(circuits(&[(1, 4), (2, 3)])).await.unwrap().unwrap();
        assert_eq!(running.frames(), [(4, 1), (3, 2), (2, 3), (1, 4)]);
        let unknown = Invalid::Unknown { port: Port(6), ports: 5 };
        assert_eq!(running.control.change(circuits(&[(1, 6)])).await, Ok(Err(unknown)));
        running.control.change(circuits(&[(1, 5), (2, 3)])).await.unwrap().unwrap();
        assert_eq!(running.control.circuits().await, Ok(circuits(&[(1, 5), (2, 3)])));
        assert_eq!(running.frames(), [(5, 1), (3, 2), (2, 3), (1, 5)]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn touched_ports_lose_frames_for_the_outage_and_others_none() {
        let mut running = Running::new(4);
        running.control.change(circuits(&[(1, 2)])).await.unwrap().unwrap();
        let begun = Instant::now();
        let control = running.control.clone();
        let change = tokio::spawn(async move { control.change(circuits(&[(1, 2), (3, 4)])).await });
        let (mut sent, mut too_early) = (0, 0);
        while !change.is_finished() {
            sent += 1;
            running.send(1, sent);
            running.send(3, sent);
            if begun.elapsed() < OUTAGE {
                too_early = sent;
            }
            thread::sleep(Duration::from_millis(1));
        }
        change.await.unwrap().unwrap().unwrap();
        assert!(begun.elapsed() >= OUTAGE);
        thread::sleep(Duration::from_millis(20));
        let all: Vec<u8> = (1..=sent).collect();
        assert_eq!(running.received(2), all, "the circuit that stays loses nothing");
        let passed = running.received(4);
        assert!(
            passed.iter().all(|&tag| tag > too_early),
            "{passed:?} after {too_early} in the dark"
        );
        assert_eq!(running.frames(), [(2, 1), (1, 2), (4, 3), (3, 4)]);
    }

    #[test]
    fn frames_from_before_the_light_are_lost() {
        // Without a thread, so that the frame is still in the buffer when the mirrors stop.
        let (near, mut first) = pair();
        let (far, mut second) = pair();
        let ports = [near, far].map(|io| ("memory".to_owned(), Box::new(io) as _)).into();
        let (mut plane, _control) = Plane::new(Mirrors::new(2, OUTAGE), ports);
        plane.mirrors.change(Duration::ZERO, &circuits(&[(1, 2)])).unwrap();
        for (tag, time) in [(1, OUTAGE), (2, OUTAGE + TICK)] {
            first.send(&[tag; 60]).unwrap();
            first.flush().unwrap();
            plane.settle(time);
            plane.forward(time);
        }
        let mut tags = Vec::new();
        second.receive(9, &mut |frame| tags.push(frame[0])).unwrap();
        assert_eq!(tags, [2]);
    }

    #[tokio::test]
    async fn a_plane_that_has_ended_does_not_answer() {
        let (plane, control) = Plane::new(Mirrors::new(0, OUTAGE), Vec::new());
        drop(plane);
        assert_eq!(control.circuits().await, Err(Ended));
    }
}
