//! Which part fails when and how: drawn from a seed before anything runs, so that a failing seed has the same
//! schedule again.

use std::collections::VecDeque;
use std::fmt;
use std::iter::Peekable;
use std::time::{Duration, Instant};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Shortest time for which a part is stopped or a link is down.
const SHORTEST: Duration = Duration::from_millis(50);

/// Longest time for which a part that was killed stays away.
const LONGEST_AWAY: Duration = Duration::from_secs(1);

/// How long a part stays away that fails in turn.
const AWAY: Duration = Duration::from_millis(500);

/// Of the failures of processes, so many in 100 are stops; the others are kills.
const STOPS: u32 = 25;

/// A kind of part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A switch.
    Switch,
    /// The controller.
    Controller,
    /// The cross-connect between units.
    CrossConnect,
    /// The parameter servers of a host.
    Server,
    /// The reminder agent of a host.
    Agent,
    /// A worker.
    Worker,
    /// A link.
    Link,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Switch,
        Self::Controller,
        Self::CrossConnect,
        Self::Server,
        Self::Agent,
        Self::Worker,
        Self::Link,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Switch => "switch",
            Self::Controller => "controller",
            Self::CrossConnect => "cross-connect",
            Self::Server => "parameter server",
            Self::Agent => "reminder agent",
            Self::Worker => "worker",
            Self::Link => "link",
        })
    }
}

/// What happens to a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// SIGKILL; the part is started again after this time.
    Kill(Duration),
    /// SIGSTOP, and SIGCONT after this time.
    Stop(Duration),
    /// The link is down for this time.
    Cut(Duration),
}

/// A failure of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When, from the start.
    pub at: Duration,
    /// Of what kind the part is.
    pub kind: Kind,
    /// Which of its kind.
    pub which: usize,
    /// What happens to it.
    pub deed: Deed,
}

/// A schedule without an end.
#[derive(Debug)]
pub struct Schedule {
    random: ChaCha8Rng,
    /// How many parts of each kind there are; only kinds with parts.
    parts: Vec<(Kind, usize)>,
    every: Duration,
    longest: Duration,
    at: Duration,
}

impl Schedule {
    /// The schedule of a seed: a failure `every` so often on average. Stops and cuts last up to `longest`.
    ///
    /// # Panics
    /// If there are no parts.
    #[must_use]
    pub fn new(
        seed: u64,
        parts: impl Fn(Kind) -> usize,
        every: Duration,
        longest: Duration,
    ) -> Self {
        let parts = Kind::ALL.map(|kind| (kind, parts(kind)));
        let parts: Vec<_> = parts.into_iter().filter(|(_, count)| *count > 0).collect();
        assert!(!parts.is_empty(), "there is something to fail");
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { random, parts, every, longest: longest.max(SHORTEST), at: Duration::ZERO }
    }
}

impl Iterator for Schedule {
    type Item = Fault;

    fn next(&mut self) -> Option<Fault> {
        let random = &mut self.random;
        self.at += self.every.mul_f64(random.random_range(0.5..1.5));
        // Kinds are equally likely, whether there is one part of a kind or many.
        let (kind, count) = self.parts[random.random_range(0..self.parts.len())];
        let which = random.random_range(0..count);
        let length = random.random_range(SHORTEST..=self.longest);
        let away = random.random_range(Duration::ZERO..LONGEST_AWAY);
        let stops = random.random_range(0..100) < STOPS;
        let deed = match kind {
            Kind::Link => Deed::Cut(length),
            _ if stops => Deed::Stop(length),
            _ => Deed::Kill(away),
        };
        Some(Fault { at: self.at, kind, which, deed })
    }
}

/// What is still to fail.
#[derive(Debug)]
pub enum Failures {
    /// A schedule, for so long.
    Random(Box<Peekable<Schedule>>, Duration),
    /// Each part once, when jobs have got over the failure before for so long.
    InTurn {
        /// The rest, in order.
        rest: VecDeque<(Kind, usize)>,
        /// The time between two.
        pause: Duration,
        /// Since when jobs have got over everything.
        calm: Option<Instant>,
    },
}

impl Failures {
    /// All parts in turn: kind after kind. There are so many of each.
    #[must_use]
    pub fn in_turn(parts: impl Fn(Kind) -> usize, pause: Duration) -> Self {
        let of = |kind| (0..parts(kind)).map(move |which| (kind, which));
        Self::InTurn { rest: Kind::ALL.into_iter().flat_map(of).collect(), pause, calm: None }
    }

    /// What is due now, `elapsed` after the start; `open` failures are not over yet, or jobs have not begun.
    pub fn due(&mut self, elapsed: Duration, open: usize, now: Instant) -> Option<Fault> {
        match self {
            Self::Random(schedule, length) => {
                schedule.next_if(|fault| fault.at <= elapsed && elapsed < *length)
            }
            Self::InTurn { rest, pause, calm } => {
                if open > 0 {
                    *calm = None;
                    return None;
                }
                if now < *calm.get_or_insert(now) + *pause {
                    return None;
                }
                let (kind, which) = rest.pop_front()?;
                let deed = if kind == Kind::Link { Deed::Cut(AWAY) } else { Deed::Kill(AWAY) };
                Some(Fault { at: elapsed, kind, which, deed })
            }
        }
    }

    /// The part of this failure was away already. In turn, it fails later.
    pub fn missed(&mut self, fault: &Fault) {
        if let Self::InTurn { rest, .. } = self {
            rest.push_back((fault.kind, fault.which));
        }
    }

    /// Whether nothing will fail any more.
    #[must_use]
    pub fn are_over(&self, elapsed: Duration) -> bool {
        match self {
            Self::Random(_, length) => elapsed >= *length,
            Self::InTurn { rest, .. } => rest.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_turn_each_part_fails_once_after_the_one_before_is_over() {
        let parts = |kind| match kind {
            Kind::Switch => 2,
            Kind::Controller | Kind::Link => 1,
            _ => 0,
        };
        let mut failures = Failures::in_turn(parts, Duration::from_secs(1));
        let start = Instant::now();
        let mut seen = Vec::new();
        let mut open = 0;
        for second in 0..20 {
            let elapsed = Duration::from_secs(second);
            match failures.due(elapsed, open, start + elapsed) {
                // The first switch is away when it is to fail.
                Some(fault) if (fault.kind, fault.which) == (Kind::Switch, 0) && second < 5 => {
                    failures.missed(&fault);
                }
                Some(fault) => {
                    seen.push((second, fault.kind, fault.which));
                    assert_eq!(fault.kind == Kind::Link, matches!(fault.deed, Deed::Cut(_)));
                    open = 1;
                }
                None if open == 1 => open = 0,
                None => {}
            }
        }
        assert!(failures.are_over(Duration::ZERO));
        let parts: Vec<_> = seen.iter().map(|(_, kind, which)| (*kind, *which)).collect();
        let expected =
            [(Kind::Switch, 1), (Kind::Controller, 0), (Kind::Link, 0), (Kind::Switch, 0)];
        assert_eq!(parts, expected);
        assert!(seen.windows(2).all(|pair| pair[1].0 > pair[0].0 + 1), "a pause: {seen:?}");
    }

    fn schedule(seed: u64) -> Schedule {
        let parts = |kind| match kind {
            Kind::Agent | Kind::CrossConnect => 0,
            Kind::Worker | Kind::Link => 4,
            _ => 1,
        };
        Schedule::new(seed, parts, Duration::from_secs(2), Duration::from_secs(3))
    }

    #[test]
    fn a_seed_has_one_schedule() {
        let draw = |seed| schedule(seed).take(200).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn all_parts_fail_in_every_way_and_none_that_does_not_exist() {
        let faults: Vec<_> = schedule(1).take(2_000).collect();
        assert!(faults.windows(2).all(|pair| pair[0].at < pair[1].at));
        let end = faults.last().unwrap().at.as_secs_f64();
        assert!((3_800.0..4_200.0).contains(&end), "{end}");
        let count = |test: &dyn Fn(&Fault) -> bool| faults.iter().filter(|f| test(f)).count();
        assert_eq!(count(&|fault| fault.kind == Kind::Agent), 0);
        for which in 0..4 {
            for kind in [Kind::Worker, Kind::Link] {
                assert!(count(&|fault| (fault.kind, fault.which) == (kind, which)) > 50);
            }
        }
        let processes = count(&|fault| fault.kind != Kind::Link);
        let stops = count(&|fault| matches!(fault.deed, Deed::Stop(_)));
        assert!((processes / 5..processes / 3).contains(&stops), "{stops} of {processes}");
        assert!(
            faults
                .iter()
                .all(|fault| { (fault.kind == Kind::Link) == matches!(fault.deed, Deed::Cut(_)) })
        );
    }
}
