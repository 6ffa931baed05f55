//! Runs a sans-IO endpoint over a port, in real time.
//!
//! The protocol's state machines ([`Endpoint`]) know neither sockets nor clocks. A [`Driver`]
//! provides both: each [`turn`](Driver::turn) passes in received frames, fires the timer that is
//! due, sends the endpoint's frames, and sleeps if there was nothing to do. It spawns no thread and
//! runs in the thread that calls `turn`. An endpoint with a message channel exchanges its messages
//! in the same turns: [`turn_with`](Driver::turn_with). [`channel`] is such a channel, over TCP.
//! An [`executor`] runs many endpoints in one thread. [`faults`] puts the faults of links around ports,
//! and [`tcp`] has what they do to a connection.

pub mod channel;
pub mod executor;
pub mod faults;
pub mod tcp;

use std::io;
use std::time::{Duration, Instant};

use tributary_netio::{FrameIo, Waker, Watch};
use tributary_protocol::{Endpoint, Time};

/// Frames received or sent per turn before the other direction is handled.
const BATCH: usize = 128;

/// Turns in a row in which timers may wait because frames are left to receive. The frames that were
/// there when a timer was due are not more than fit in these.
const MOST_POSTPONED: u32 = 16;

/// An endpoint, its port and its clock.
#[derive(Debug)]
pub struct Driver<E, Io> {
    endpoint: E,
    io: Io,
    clock: Clock,
    watch: Watch,
    /// Of other event sources than the port.
    waker: Option<Waker>,
    frame: Vec<u8>,
    /// The endpoint produced `frame`, and the port had no room for it.
    waiting: bool,
    /// Turns in which a timer has waited for frames to be received.
    postponed: u32,
}

impl<E: Endpoint, Io: FrameIo> Driver<E, Io> {
    /// Drives `endpoint` with `io` and the clock.
    pub fn new(endpoint: E, io: Io) -> Self {
        let clock = Clock::start();
        let watch = Watch::new();
        let (frame, waker) = (Vec::new(), None);
        Self { endpoint, io, clock, watch, waker, frame, waiting: false, postponed: 0 }
    }

    /// Lets `waker` end the driver's sleeps: that of a message channel or another thread. No other
    /// thread may sleep on it. It is cheapest with memory ports made with the same waker.
    #[must_use]
    pub fn with_waker(self, waker: Waker) -> Self {
        Self { waker: Some(waker), ..self }
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// The endpoint, to submit work and take events.
    pub fn endpoint_mut(&mut self) -> &mut E {
        &mut self.endpoint
    }

    /// Returns the endpoint.
    pub fn into_endpoint(self) -> E {
        self.endpoint
    }

    /// Receives, fires timers and sends. If there was nothing to do, sleeps until there is, at most
    /// for `patience`.
    ///
    /// # Errors
    /// Those of the port.
    pub fn turn(&mut self, patience: Duration) -> io::Result<()> {
        self.turn_with(patience, |_, _| false)
    }

    /// A [`turn`](Self::turn) in which `exchange` carries messages between the endpoint and a
    /// channel, and returns whether there were any. It may be called several times per turn. A
    /// thread that puts a message into the channel must wake the [waker](Self::with_waker).
    ///
    /// # Errors
    /// Those of the port.
    pub fn turn_with(
        &mut self,
        patience: Duration,
        mut exchange: impl FnMut(Time, &mut E) -> bool,
    ) -> io::Result<()> {
        if !self.advance(&mut exchange)? {
            self.sleep(patience)?;
        }
        Ok(())
    }

    /// A turn without sleep. Returns whether there was anything to do.
    ///
    /// # Errors
    /// Those of the port.
    pub fn advance(&mut self, mut exchange: impl FnMut(Time, &mut E) -> bool) -> io::Result<bool> {
        let now = self.clock.now();
        let endpoint = &mut self.endpoint;
        let received = self.io.receive(BATCH, &mut |frame| endpoint.handle_frame(now, frame))?;
        // The process may have waited for a processor since the timer was due. What arrived meanwhile
        // is received before, or the endpoint would miss what is there.
        let may_have_more = received >= BATCH && self.postponed < MOST_POSTPONED;
        if self.endpoint.poll_timeout().is_none_or(|due| due > now) {
            self.postponed = 0;
        } else if may_have_more {
            self.postponed += 1;
        } else {
            self.postponed = 0;
            self.endpoint.handle_timeout(now);
        }
        let before = exchange(now, &mut self.endpoint);
        let sent = self.transmit(now)?;
        // Sending may also have produced messages, which must be exchanged before the sleep.
        Ok(before || received > 0 || sent > 0 || exchange(now, &mut self.endpoint))
    }

    /// Adds the events after which there is something to do again: an arrival, room to send, the
    /// endpoint's timer, and the [waker](Self::with_waker).
    ///
    /// # Errors
    /// Those of the port.
    pub fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        self.io.flush()?;
        self.io.watch(watch)?;
        if let Some(waker) = &self.waker {
            watch.waker(waker);
        }
        if let Some(due) = self.endpoint.poll_timeout() {
            watch.due_in(due - self.clock.now());
        }
        Ok(())
    }

    /// Sleeps until something arrives, the endpoint's timer is due, or `patience` has passed.
    ///
    /// # Errors
    /// Those of the port.
    pub fn sleep(&mut self, patience: Duration) -> io::Result<()> {
        // It keeps what it has learned about waiting. After an error of the port it has events that do
        // not belong to the next sleep.
        let mut watch = std::mem::take(&mut self.watch);
        self.watch(&mut watch)?;
        let slept = watch.sleep(Some(patience));
        self.watch = watch;
        slept
    }

    /// Sends at most a batch. Returns the number of frames sent.
    fn transmit(&mut self, now: Time) -> io::Result<usize> {
        let mut sent = 0;
        while sent < BATCH {
            if !self.waiting && !self.endpoint.poll_transmit(now, &mut self.frame) {
                break;
            }
            self.waiting = !self.io.send(&self.frame)?;
            if self.waiting {
                break;
            }
            sent += 1;
        }
        if sent > 0 {
            self.io.flush()?;
        }
        Ok(sent)
    }
}

/// The process's monotonic clock as protocol time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { start: Instant::now() }
    }

    fn now(&self) -> Time {
        let nanos = self.start.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).expect("less than 584 years"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_netio::{Waker, memory};

    /// Returns each frame that arrives, and sends one when its timer fires.
    struct Echo {
        replies: Vec<Vec<u8>>,
        due: Option<Time>,
    }

    impl Endpoint for Echo {
        type Event = ();

        fn handle_frame(&mut self, _: Time, frame: &[u8]) {
            self.replies.push(frame.to_vec());
        }

        fn poll_transmit(&mut self, _: Time, frame: &mut Vec<u8>) -> bool {
            let Some(reply) = self.replies.pop() else { return false };
            frame.clear();
            frame.extend_from_slice(&reply);
            true
        }

        fn poll_timeout(&self) -> Option<Time> {
            self.due
        }

        fn handle_timeout(&mut self, _: Time) {
            self.due = None;
            self.replies.push(vec![7; 60]);
        }

        fn poll_event(&mut self) -> Option<()> {
            None
        }
    }

    #[test]
    fn frames_timers_and_back_pressure() {
        let (near, mut far) = memory::link(4, &Waker::new(), &Waker::new());
        let echo = Echo { replies: Vec::new(), due: Some(Time::from_nanos(2_000_000)) };
        let mut driver = Driver::new(echo, near);

        // The timer fires without any arrival, and not before it is due.
        let start = Instant::now();
        let mut seen = Vec::new();
        while seen.is_empty() {
            driver.turn(Duration::from_secs(1)).unwrap();
            far.receive(8, &mut |frame| seen.push(frame.to_vec())).unwrap();
        }
        assert_eq!(seen, [vec![7; 60]]);
        assert!(start.elapsed() >= Duration::from_millis(1));

        // More replies than the link holds: none is lost while the far end is slow.
        let mut returned = Vec::new();
        for round in 0..20u8 {
            while !far.send(&[round; 60]).unwrap() {
                driver.turn(Duration::ZERO).unwrap();
            }
            far.flush().unwrap();
            driver.turn(Duration::ZERO).unwrap();
            if round % 7 == 6 {
                far.receive(64, &mut |frame| returned.push(frame[0])).unwrap();
            }
        }
        for _ in 0..20 {
            driver.turn(Duration::ZERO).unwrap();
            far.receive(64, &mut |frame| returned.push(frame[0])).unwrap();
        }
        returned.sort_unstable();
        assert_eq!(returned, (0..20).collect::<Vec<_>>());
    }
    #[test]
    fn messages_are_exchanged_before_a_sleep_and_end_it() {
        let waker = Waker::new();
        let (near, _far) = memory::link(4, &waker, &Waker::new());
        let due = Some(Time::from_nanos(1_000_000));
        let echo = Echo { replies: Vec::new(), due };
        let mut driver = Driver::new(echo, near).with_waker(waker.clone());
        let (sender, messages) = std::sync::mpsc::channel();

        // The turn that fires the timer also exchanges the resulting messages.
        let mut seen_after_timer = false;
        while driver.endpoint().due.is_some() {
            driver
                .turn_with(Duration::from_secs(1), |_, echo| {
                    seen_after_timer |= echo.due.is_none();
                    false
                })
                .unwrap();
        }
        assert!(seen_after_timer);

        // A message ends the sleep early.
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            sender.send(5).unwrap();
            waker.wake();
        });
        let mut received = None;
        while received.is_none() {
            driver
                .turn_with(Duration::from_secs(20), |_, _| {
                    received = received.or(messages.try_recv().ok());
                    received.is_some()
                })
                .unwrap();
        }
        assert_eq!(received, Some(5));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        thread.join().unwrap();
    }
}
