//! The memory that the ranks of a host share: what each has called, how far it is, and its values.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use std::{io, ptr, slice};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

use crate::Error;
use crate::agreement::TEXT;

/// Bytes of each of a rank's two buffers. The buffers of a few ranks fit a processor's cache.
pub(super) const BUFFER: usize = 256 << 10;

/// Bytes of the text of an error.
const WHY: usize = 4096;

/// Stands for the rest of a text.
const MORE: &str = "…";

/// The phases of [`Head::failure`].
const NONE: u32 = 0;
const WRITING: u32 = 1;
const WRITTEN: u32 = 2;

/// What is said about all ranks.
#[repr(C, align(128))]
struct Head {
    /// Changes whenever a rank has come further.
    turn: AtomicU32,
    /// Ranks that sleep until it does.
    sleepers: AtomicU32,
    /// Whether the group has failed.
    failure: AtomicU32,
    /// Why.
    why: ErrorPlace,
    /// What other hosts have made of calls with even and with odd numbers.
    answers: [ErrorPlace; 2],
}

/// An error, or none.
#[repr(C)]
struct ErrorPlace {
    /// Which one, in the order of [`ErrorPlace::write`], and one; zero for none.
    kind: AtomicU32,
    rank: AtomicU32,
    number: AtomicU64,
    text: [AtomicU64; WHY / 8],
}

impl ErrorPlace {
    fn write(&self, error: Option<&Error>) {
        let (kind, rank, number, text) = match error {
            None => (0, 0, 0, ""),
            Some(Error::PeerLost { rank, why }) => (1, *rank, 0, &why[..]),
            Some(Error::Mismatch { call, what }) => (2, 0, *call, &what[..]),
            Some(Error::NotFinite { what }) => (3, 0, 0, &what[..]),
            Some(Error::Underflow { what }) => (4, 0, 0, &what[..]),
            Some(Error::TimedOut { waited, what }) => (5, 0, waited.as_millis() as u64, &what[..]),
            Some(Error::Failed(text)) => (6, 0, 0, &text[..]),
            Some(Error::Closed) => (7, 0, 0, ""),
        };
        self.kind.store(kind, Ordering::Relaxed);
        self.rank.store(rank.into(), Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        match text.len() > WHY {
            true => {
                let end = text.floor_char_boundary(WHY - MORE.len());
                write_text(&self.text, &format!("{}{MORE}", &text[..end]));
            }
            false => write_text(&self.text, text),
        }
    }

    fn read(&self) -> Option<Error> {
        let (text, number) = (read_text(&self.text), self.number.load(Ordering::Relaxed));
        Some(match self.kind.load(Ordering::Relaxed) {
            0 => return None,
            1 => Error::PeerLost {
                rank: u16::try_from(self.rank.load(Ordering::Relaxed)).unwrap_or(u16::MAX),
                why: text,
            },
            2 => Error::Mismatch { call: number, what: text },
            3 => Error::NotFinite { what: text },
            4 => Error::Underflow { what: text },
            5 => Error::TimedOut { waited: Duration::from_millis(number), what: text },
            6 => Error::Failed(text),
            _ => Error::Closed,
        })
    }
}

/// What a rank takes steps in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lane {
    /// The sums of a host.
    Sums,
    /// Those of all hosts.
    Results,
}

/// What a rank says of itself. Ranks do not write to the same line of the cache.
#[repr(C, align(128))]
struct Rank {
    /// Calls that it has begun.
    begun: AtomicU64,
    /// Calls that it made before it left, and one; zero while it is there.
    left: AtomicU64,
    /// Steps that it has taken in each lane.
    steps: [AtomicU32; 2],
    /// Of calls with even and with odd numbers: it may be a call ahead of ranks that read it.
    claims: [ClaimOf; 2],
}

#[repr(C)]
struct ClaimOf {
    kind: AtomicU64,
    elements: AtomicU64,
    /// The number of the first value that the group refuses, and one.
    refused: AtomicU64,
    text: [AtomicU64; TEXT / 8],
}

/// What a rank calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// Stands for the operation and the type of its elements.
    pub(super) kind: u64,
    pub(super) elements: u64,
    pub(super) refused: Option<u64>,
    pub(super) text: String,
}

impl Claim {
    /// The text, as far as the others can read it.
    pub(super) fn text(&self) -> &str {
        shortened(&self.text)
    }
}

/// The memory, in a process.
pub(super) struct Segment {
    start: NonNull<u8>,
    length: usize,
    ranks: usize,
}

// SAFETY: what is shared is atomic, but for the buffers, whose users take turns in steps.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// The beginning of a text that fits a claim.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT)]
}

/// Copies text to words, from its beginning.
fn write_text(words: &[AtomicU64], text: &str) {
    let text = &text[..text.floor_char_boundary(8 * words.len())];
    let mut parts = text.as_bytes().chunks(8);
    for word in words {
        let mut part = [0; 8];
        let bytes = parts.next().unwrap_or_default();
        part[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(part), Ordering::Relaxed);
    }
}

fn read_text(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Segment {
    /// Memory for so many ranks, and what other processes need to have it, too.
    pub(super) fn create(ranks: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("tributary", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, Self::length(ranks) as u64)?;
        Ok((Self::open(&file, ranks)?, file))
    }

    /// The memory of a file from [`create`](Self::create).
    pub(super) fn open(file: impl AsFd, ranks: usize) -> io::Result<Self> {
        let length = Self::length(ranks);
        if rustix::fs::fstat(&file)?.st_size < length as i64 {
            return Err(io::Error::other("the shared memory is for fewer ranks"));
        }
        // SAFETY: a new mapping, whose contents are zeros at first.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).expect("a mapping is not at address zero");
        Ok(Self { start, length, ranks })
    }

    fn length(ranks: usize) -> usize {
        Self::buffers(ranks) + (ranks + 1) * 2 * BUFFER
    }

    /// Where the buffers begin.
    fn buffers(ranks: usize) -> usize {
        (size_of::<Head>() + ranks * size_of::<Rank>()).next_multiple_of(4096)
    }

    fn head(&self) -> &Head {
        // SAFETY: at the beginning of the mapping, and zeros are valid.
        unsafe { self.start.cast::<Head>().as_ref() }
    }

    fn rank(&self, rank: usize) -> &Rank {
        // SAFETY: after the head, and zeros are valid.
        let ranks = unsafe {
            slice::from_raw_parts(self.start.add(size_of::<Head>()).cast().as_ptr(), self.ranks)
        };
        &ranks[rank]
    }

    /// A buffer of a rank, of the two that each has. After the last rank are those of the results of all hosts.
    pub(super) fn buffer(&self, rank: usize, which: usize) -> NonNull<u8> {
        assert!(rank <= self.ranks && which < 2, "a buffer of a rank");
        let at = Self::buffers(self.ranks) + (2 * rank + which) * BUFFER;
        // SAFETY: within the mapping.
        unsafe { self.start.add(at) }
    }

    /// Tells the other ranks how many calls this one has begun.
    pub(super) fn begin(&self, rank: usize, begun: u64) {
        self.rank(rank).begun.fetch_max(begun, Ordering::Relaxed);
    }

    /// The ranks that have not begun so many calls.
    pub(super) fn behind(&self, calls: u64) -> Vec<usize> {
        let is_behind = |rank: &usize| self.rank(*rank).begun.load(Ordering::Relaxed) < calls;
        (0..self.ranks).filter(is_behind).collect()
    }

    /// Tells the other ranks that this one has left the group after so many calls.
    pub(super) fn leave(&self, rank: usize, calls: u64) {
        self.rank(rank).left.store(calls + 1, Ordering::SeqCst);
        self.wake();
    }

    /// The number of calls after which a rank has left.
    pub(super) fn left(&self, rank: usize) -> Option<u64> {
        self.rank(rank).left.load(Ordering::SeqCst).checked_sub(1)
    }

    /// Writes what a rank calls; others can read it after its next step.
    pub(super) fn claim(&self, rank: usize, number: u64, claim: &Claim) {
        let place = &self.rank(rank).claims[(number % 2) as usize];
        place.kind.store(claim.kind, Ordering::Relaxed);
        place.elements.store(claim.elements, Ordering::Relaxed);
        place.refused.store(claim.refused.map_or(0, |at| at + 1), Ordering::Relaxed);
        write_text(&place.text, &claim.text);
    }

    /// Whether a rank calls the same as another one, and has nothing to refuse.
    pub(super) fn is_same(&self, rank: usize, number: u64, claim: &Claim) -> bool {
        let place = &self.rank(rank).claims[(number % 2) as usize];
        place.kind.load(Ordering::Relaxed) == claim.kind
            && place.elements.load(Ordering::Relaxed) == claim.elements
            && place.refused.load(Ordering::Relaxed) == 0
            // Two operations may have the same number.
            && read_text(&place.text) == claim.text()
    }

    /// What all ranks call.
    pub(super) fn claims(&self, number: u64) -> Vec<Claim> {
        let claim = |rank| {
            let place = &self.rank(rank).claims[(number % 2) as usize];
            Claim {
                kind: place.kind.load(Ordering::Relaxed),
                elements: place.elements.load(Ordering::Relaxed),
                refused: place.refused.load(Ordering::Relaxed).checked_sub(1),
                text: read_text(&place.text),
            }
        };
        (0..self.ranks).map(claim).collect()
    }

    /// A rank has taken another step, its last one being `steps`: what it wrote before is for the others to read.
    pub(super) fn step(&self, rank: usize, lane: Lane, steps: u32) {
        self.rank(rank).steps[lane as usize].store(steps, Ordering::SeqCst);
        // A rank that sleeps waits until all have taken the step.
        if self.missing(lane, steps).is_none() {
            self.wake();
        }
    }

    /// The first rank that has not taken so many steps.
    pub(super) fn missing(&self, lane: Lane, steps: u32) -> Option<usize> {
        // The number may overflow; ranks are a few steps apart at most.
        let is_missing = |rank: &usize| {
            let taken = self.rank(*rank).steps[lane as usize].load(Ordering::SeqCst);
            taken.wrapping_sub(steps).cast_signed() < 0
        };
        (0..self.ranks).find(is_missing)
    }

    /// The number to [sleep](Self::sleep) on, from before a look at what is waited for.
    pub(super) fn turn(&self) -> u32 {
        self.head().turn.load(Ordering::SeqCst)
    }

    /// Sleeps until a rank has come further since `turn`, but not for longer than this. It may end early.
    pub(super) fn sleep(&self, turn: u32, longest: Duration) {
        let head = self.head();
        head.sleepers.fetch_add(1, Ordering::SeqCst);
        let time = longest.try_into().ok();
        // Whatever ends the sleep, the caller looks again.
        let _ = futex::wait(&head.turn, futex::Flags::empty(), turn, time.as_ref());
        head.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the ranks that sleep.
    pub(super) fn wake(&self) {
        let head = self.head();
        head.turn.fetch_add(1, Ordering::SeqCst);
        // A process that died in its sleep stays counted, which costs a system call.
        if head.sleepers.load(Ordering::SeqCst) > 0 {
            // The word is mapped, which is all that it asks for.
            let _ = futex::wake(&head.turn, futex::Flags::empty(), u32::MAX >> 1);
        }
    }

    /// Tells all ranks that the group has failed, unless they know it already.
    pub(super) fn fail(&self, error: &Error) {
        let head = self.head();
        let order = Ordering::SeqCst;
        if head.failure.compare_exchange(NONE, WRITING, order, order).is_ok() {
            head.why.write(Some(error));
            head.failure.store(WRITTEN, order);
        }
        self.wake();
    }

    /// Why the group has failed.
    pub(super) fn failure(&self) -> Option<Error> {
        let head = self.head();
        let is_written = head.failure.load(Ordering::SeqCst) == WRITTEN;
        is_written.then(|| head.why.read()).flatten()
    }

    /// The first rank writes what other hosts have made of a call; the others can read it after its next step.
    pub(super) fn answer(&self, number: u64, error: Option<&Error>) {
        self.head().answers[(number % 2) as usize].write(error);
    }

    /// What other hosts have made of a call.
    pub(super) fn answered(&self, number: u64) -> Option<Error> {
        self.head().answers[(number % 2) as usize].read()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is not used afterwards.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "it was mapped");
    }
}
