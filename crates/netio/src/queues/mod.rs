//! The buffers of a socket: frames that have arrived and were not passed on, and frames that were not
//! sent. A buffer may hold a super-frame.

use std::io;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::Watch;
use crate::messages::BATCH;
use crate::port::{DEVICE_RETRY, Statistics};
use crate::segments::{Cut, Joined, Unusable};

mod buffers;

use buffers::Buffers;

/// Buffers per system call if each may hold many frames.
pub(crate) const SUPER_BATCH: usize = 8;

/// After this many consecutive refusals a buffer is dropped: the device is not full, but some rule
/// drops the frames.
const DEVICE_RETRIES: u32 = 100;

/// Bytes of a buffer that cannot be delivered, for each frame that it counts as in its port's turn.
const BYTES_PER_TURN: usize = 2048;

/// The description of a received buffer.
pub(crate) trait Arrival: Copy {
    /// Its length, which may exceed the room for it.
    fn length(&self) -> usize;
}

/// What has arrived. `A` describes a buffer.
#[derive(Debug)]
pub(crate) struct Incoming<A> {
    buffers: Buffers,
    stride: usize,
    arrivals: [A; BATCH],
    /// Number of buffers that are used, at most [`BATCH`].
    slots: usize,
    /// The arrivals that have not been passed on.
    next: usize,
    count: usize,
    /// The rest of the arrival at `next`.
    cut: Option<Cut>,
}

impl<A: Arrival> Incoming<A> {
    /// Room for `slots` buffers of `stride` bytes.
    pub(crate) fn new(slots: usize, stride: usize, nothing: A) -> Self {
        Self {
            buffers: Buffers::new(stride * slots),
            stride,
            arrivals: [nothing; BATCH],
            slots,
            next: 0,
            count: 0,
            cut: None,
        }
    }

    /// Whether a frame can be passed on without asking the kernel.
    pub(crate) fn is_waiting(&self) -> bool {
        self.next < self.count
    }

    /// Passes up to `max` frames to `sink` without waiting. Returns their number. `fetch` fills
    /// buffers of the given stride from the socket, and `open` finds the frames in one.
    pub(crate) fn receive(
        &mut self,
        max: usize,
        statistics: &mut Statistics,
        sink: &mut dyn FnMut(&[u8]),
        mut fetch: impl FnMut(&mut [u8], usize, &mut [A]) -> io::Result<usize>,
        open: impl Fn(&mut [u8], A) -> Result<Cut, Unusable>,
    ) -> io::Result<usize> {
        let received = self.receive_some(max, statistics, sink, &mut fetch, open);
        if !self.is_waiting() {
            self.buffers.give_back();
        }
        received
    }

    fn receive_some(
        &mut self,
        max: usize,
        statistics: &mut Statistics,
        sink: &mut dyn FnMut(&[u8]),
        fetch: &mut impl FnMut(&mut [u8], usize, &mut [A]) -> io::Result<usize>,
        open: impl Fn(&mut [u8], A) -> Result<Cut, Unusable>,
    ) -> io::Result<usize> {
        let (mut looked_at, mut delivered, mut drained) = (0, 0, false);
        while looked_at < max {
            if self.next == self.count {
                if drained {
                    break;
                }
                let wanted = (max - looked_at).min(self.slots);
                let batch = fetch(self.buffers.get(), self.stride, &mut self.arrivals[..wanted]);
                (self.next, self.count) = match batch {
                    Ok(count) => {
                        drained = count < wanted;
                        (0, count)
                    }
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock => break,
                        // The second is about a datagram that its receiver has refused.
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused => continue,
                        _ => return Err(error),
                    },
                };
            }
            match self.deliver(max - looked_at, statistics, sink, &open) {
                Ok(frames) => {
                    delivered += frames;
                    looked_at += frames.max(1);
                }
                // They count for what it took to copy them, so that a flood of them gets no longer
                // turns than frames do.
                Err(bytes) => looked_at += bytes.div_ceil(BYTES_PER_TURN).max(1),
            }
        }
        Ok(delivered)
    }

    /// Passes at most `max` frames of the next arrival to `sink`. Returns their number, or the length of
    /// a buffer that cannot be used.
    fn deliver(
        &mut self,
        max: usize,
        statistics: &mut Statistics,
        sink: &mut dyn FnMut(&[u8]),
        open: &impl Fn(&mut [u8], A) -> Result<Cut, Unusable>,
    ) -> Result<usize, usize> {
        let Some(arrival) = self.arrivals.get(self.next) else { return Ok(0) };
        let buffer = &mut self.buffers.get()[self.next * self.stride..][..self.stride];
        let mut cut = match self.cut.take().map_or_else(|| open(buffer, *arrival), Ok) {
            Ok(cut) => cut,
            Err(Unusable) => {
                statistics.oversized += 1;
                self.next += 1;
                return Err(arrival.length());
            }
        };
        let mut delivered = 0;
        while delivered < max {
            let Some(frame) = cut.next(buffer) else {
                self.next += 1;
                statistics.received += delivered as u64;
                return Ok(delivered);
            };
            sink(&buffer[frame]);
            delivered += 1;
        }
        statistics.received += delivered as u64;
        self.cut = Some(cut);
        Ok(delivered)
    }
}

/// Adds what should end a sleep: an arrival, a frame that waits already, room to send.
pub(crate) fn watch<A: Arrival>(
    socket: &Socket,
    incoming: &Incoming<A>,
    outgoing: &Outgoing,
    watch: &mut Watch,
) {
    let events = libc::POLLIN | outgoing.watch(watch);
    if incoming.is_waiting() {
        watch.ready();
    }
    watch.descriptor(socket, events);
}

/// The reason why queued frames are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    None,
    /// The socket's send buffer is full; poll(2) reports when it is not.
    Socket,
    /// The device's queue is full, for this number of consecutive attempts.
    Device(u32),
}

/// Number of super-frames in a row that the kernel refuses before datagrams are sent one by one. Those
/// that are refused are lost.
const REFUSALS: u8 = 2;

/// Time until another super-frame is tried. The cause may have been a change of the MTU or a route.
const RETRY: Duration = Duration::from_secs(10);

/// What was not sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    buffers: Buffers,
    stride: usize,
    /// The contents of the buffers.
    joined: [Joined; BATCH],
    /// Number of buffers that are used, at most [`BATCH`].
    slots: usize,
    /// How the first frame is put into a buffer.
    put: fn(&[u8], usize, &mut [u8]) -> Joined,
    /// The queued buffers.
    first: usize,
    end: usize,
    obstacle: Obstacle,
    /// Number of super-frames that the kernel has refused since it last took one.
    refusals: u8,
    /// When that number became [`REFUSALS`].
    alone_since: Option<Instant>,
    warned: bool,
}

impl Outgoing {
    /// Room for `slots` buffers of `stride` bytes.
    pub(crate) fn new(slots: usize, stride: usize) -> Self {
        Self::with(slots, stride, Joined::first)
    }

    /// The same for datagrams that contain frames.
    pub(crate) fn containing(slots: usize, stride: usize) -> Self {
        Self::with(slots, stride, Joined::contained)
    }

    fn with(slots: usize, stride: usize, put: fn(&[u8], usize, &mut [u8]) -> Joined) -> Self {
        Self {
            put,
            buffers: Buffers::new(stride * slots),
            stride,
            joined: [Joined::NONE; BATCH],
            slots,
            first: 0,
            end: 0,
            obstacle: Obstacle::None,
            refusals: 0,
            alone_since: None,
            warned: false,
        }
    }

    /// Queues a frame, joined to the last one if both fit together, it has at most `longest_joined`
    /// bytes, and the kernel has not lately refused super-frames. Returns false if there is no room.
    pub(crate) fn push(&mut self, frame: &[u8], longest_joined: usize) -> bool {
        let longest_joined = if self.alone_since.is_none() { longest_joined } else { 0 };
        if self.end > self.first {
            let last = &mut self.buffers.get()[(self.end - 1) * self.stride..][..self.stride];
            if self.joined[self.end - 1].append(frame, last) {
                return true;
            }
        }
        if self.end == self.slots {
            return false;
        }
        let place = &mut self.buffers.get()[self.end * self.stride..][..self.stride];
        self.joined[self.end] = (self.put)(frame, longest_joined, place);
        self.end += 1;
        true
    }

    /// Sends what is queued as far as there is room. `send` hands buffers to the socket, and returns
    /// how many it has taken.
    pub(crate) fn flush(
        &mut self,
        statistics: &mut Statistics,
        mut send: impl FnMut(&mut dyn Iterator<Item = (&mut [u8], &Joined)>) -> io::Result<usize>,
    ) -> io::Result<()> {
        if self.alone_since.is_some_and(|since| since.elapsed() >= RETRY) {
            // One more refusal, and it is as before.
            (self.alone_since, self.refusals) = (None, REFUSALS - 1);
        }
        while self.first < self.end {
            let buffers = self.buffers.get().chunks_exact_mut(self.stride).zip(&self.joined);
            match send(&mut buffers.take(self.end).skip(self.first)) {
                Ok(count) => {
                    let taken = &self.joined[self.first..self.first + count];
                    if self.alone_since.is_none() && taken.iter().any(|joined| joined.frames() > 1)
                    {
                        self.refusals = 0;
                    }
                    statistics.sent += self.take(count);
                    self.obstacle = Obstacle::None;
                }
                Err(error) => {
                    let before = self.first;
                    let told = self.refused(error, statistics);
                    let stuck = self.first == before && self.obstacle != Obstacle::None;
                    if told.is_err() || stuck {
                        self.rewind();
                        return told;
                    }
                }
            }
        }
        self.rewind();
        Ok(())
    }

    /// Handles a refused first buffer: drop it, retry later, or return an error.
    fn refused(&mut self, error: io::Error, statistics: &mut Statistics) -> io::Result<()> {
        match error.raw_os_error() {
            // The second is about an earlier datagram that its receiver has refused.
            Some(libc::EINTR | libc::ECONNREFUSED) => Ok(()),
            Some(libc::EAGAIN) => {
                self.obstacle = Obstacle::Socket;
                Ok(())
            }
            Some(libc::ENOBUFS) => {
                self.obstacle = match self.obstacle {
                    Obstacle::Device(DEVICE_RETRIES) => {
                        statistics.unsendable += self.take(1);
                        Obstacle::None
                    }
                    Obstacle::Device(times) => Obstacle::Device(times + 1),
                    _ => Obstacle::Device(1),
                };
                Ok(())
            }
            // An old kernel, or a device without checksums, does not take super-frames.
            Some(libc::EINVAL | libc::EIO) if self.joined[self.first].frames() > 1 => {
                statistics.unsendable += self.take(1);
                self.refusals = self.refusals.saturating_add(1);
                if self.refusals >= REFUSALS && self.alone_since.is_none() {
                    self.alone_since = Some(Instant::now());
                    if !std::mem::replace(&mut self.warned, true) {
                        tracing::warn!(
                            %error,
                            "the kernel refuses super-frames: datagrams are sent one by one, which \
                             takes several times as long"
                        );
                    }
                }
                Ok(())
            }
            // The MTU was lowered, there is no route, or a rule forbids it. The next may succeed.
            Some(
                libc::EMSGSIZE
                | libc::EPERM
                | libc::EACCES
                | libc::EINVAL
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH,
            ) => {
                statistics.unsendable += self.take(1);
                Ok(())
            }
            _ => {
                statistics.unsendable += self.take(self.end - self.first);
                Err(error)
            }
        }
    }

    /// Removes the first buffers. Returns how many frames were in them.
    fn take(&mut self, buffers: usize) -> u64 {
        let taken = &self.joined[self.first..self.first + buffers];
        self.first += buffers;
        taken.iter().map(Joined::frames).sum()
    }

    /// Frees the buffers of sent frames.
    fn rewind(&mut self) {
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
            self.buffers.give_back();
            self.obstacle = Obstacle::None;
        }
    }

    /// The events of poll(2) to wait for until more can be sent.
    fn watch(&self, watch: &mut Watch) -> i16 {
        if self.first < self.end {
            match self.obstacle {
                Obstacle::Socket => return libc::POLLOUT,
                Obstacle::None | Obstacle::Device(_) => watch.due_in(DEVICE_RETRY),
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::tests::datagram;

    impl Arrival for usize {
        fn length(&self) -> usize {
            *self
        }
    }

    #[test]
    fn a_turn_of_buffers_that_cannot_be_used_takes_no_longer_than_one_of_frames() {
        for (length, frames, refused) in [(60, 1, 64), (1_514, 1, 64), (60_000, 40, 3)] {
            let mut statistics = Statistics::default();
            let mut incoming = Incoming::new(SUPER_BATCH, 65_536, 0);
            let fetch = |_: &mut [u8], _, arrivals: &mut [usize]| {
                arrivals.fill(length);
                Ok(arrivals.len())
            };
            let none = |_: &mut [u8], _| Err(Unusable);
            let delivered = incoming.receive(64, &mut statistics, &mut |_| {}, fetch, none);
            assert_eq!((delivered.unwrap(), statistics.oversized), (0, refused));
            // What was fetched and not looked at comes in the next turn.
            assert_eq!(incoming.is_waiting(), refused % SUPER_BATCH as u64 != 0);
            let size = length.div_ceil(frames);
            let some = |_: &mut [u8], _| Ok(Cut::frames(size, 0..length));
            let delivered = incoming.receive(64, &mut statistics, &mut |_| {}, fetch, some);
            assert_eq!((delivered.unwrap(), statistics.oversized), (64, refused));
        }
    }

    /// Sends frames as far as a kernel takes them. Returns the number of frames in each buffer.
    fn send(
        outgoing: &mut Outgoing,
        statistics: &mut Statistics,
        frames: usize,
        kernel: impl Fn(u64) -> io::Result<()>,
    ) -> Vec<u64> {
        for _ in 0..frames {
            assert!(outgoing.push(&datagram(1, &[7; 100]), 1500));
        }
        let mut sent = Vec::new();
        let flushed = outgoing.flush(statistics, |queued| {
            let (_, joined) = queued.next().unwrap();
            kernel(joined.frames())?;
            sent.push(joined.frames());
            Ok(1)
        });
        flushed.unwrap();
        sent
    }

    #[test]
    fn datagrams_go_one_by_one_where_super_frames_are_refused() {
        for code in [libc::EINVAL, libc::EIO] {
            let mut outgoing = Outgoing::new(BATCH, 64 << 10);
            let mut statistics = Statistics::default();
            let old = |frames| match frames {
                1 => Ok(()),
                _ => Err(io::Error::from_raw_os_error(code)),
            };
            let mut sent = Vec::new();
            for _ in 0..4 {
                sent.extend(send(&mut outgoing, &mut statistics, 5, old));
            }
            assert_eq!(sent, [1; 10]);
            assert_eq!((statistics.sent, statistics.unsendable), (10, 10));
            // Later they are tried again, once.
            outgoing.alone_since = Instant::now().checked_sub(RETRY);
            assert_eq!(send(&mut outgoing, &mut statistics, 5, old), [1; 5]);
            assert_eq!(send(&mut outgoing, &mut statistics, 5, old), []);
            assert_eq!(send(&mut outgoing, &mut statistics, 5, old), [1; 5]);
            outgoing.alone_since = Instant::now().checked_sub(RETRY);
            for sent in [vec![1; 5], vec![5], vec![5]] {
                assert_eq!(send(&mut outgoing, &mut statistics, 5, |_| Ok(())), sent);
            }
        }
    }

    #[test]
    fn a_refusal_now_and_then_changes_nothing() {
        let mut outgoing = Outgoing::new(BATCH, 64 << 10);
        let mut statistics = Statistics::default();
        for round in 0..6 {
            let sent = send(&mut outgoing, &mut statistics, 5, |_| match round % 2 {
                0 => Err(io::Error::from_raw_os_error(libc::EINVAL)),
                _ => Ok(()),
            });
            assert_eq!(sent, vec![5; round % 2]);
        }
    }
}
