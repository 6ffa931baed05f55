//! Processor cores of a process: `--cores`, and the cores that a run gives to its processes.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A set of cores, by the numbers that Linux gives them. Written as `0,2-3`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cores(Vec<usize>);

/// The text names no set of cores.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("write numbers and ranges of cores below {}, such as 0,2-3", CpuSet::count())]
pub struct NotCores;

impl FromStr for Cores {
    type Err = NotCores;

    fn from_str(text: &str) -> Result<Self, NotCores> {
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|core: &usize| digits && *core < CpuSet::count())
            };
            let (Some(first), Some(last)) = (number(first), number(last)) else {
                return Err(NotCores);
            };
            if first > last {
                return Err(NotCores);
            }
            cores.extend(first..=last);
        }
        cores.sort_unstable();
        cores.dedup();
        Ok(Self(cores))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if position > 0 { "," } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                _ => write!(f, "{comma}{}", run[0])?,
            }
        }
        Ok(())
    }
}

impl Cores {
    /// The cores that this thread may use.
    ///
    /// # Errors
    /// If the operating system does not tell.
    pub fn available() -> Result<Self> {
        let set = sched_getaffinity(Pid::from_raw(0)).context("cannot read this thread's cores")?;
        Ok(Self((0..CpuSet::count()).filter(|core| set.is_set(*core) == Ok(true)).collect()))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The core of a process, by its number, if they take them in turns.
    #[must_use]
    pub fn in_turn(&self, process: usize) -> Option<usize> {
        self.0.get(process % self.0.len().max(1)).copied()
    }

    /// Restricts the calling thread, and the threads and processes that it will start, to these cores.
    ///
    /// # Errors
    /// If it may not use one of them.
    pub fn keep(&self) -> Result<()> {
        let available = Self::available()?;
        let missing = self.0.iter().find(|core| !available.0.contains(core));
        if let Some(core) = missing {
            anyhow::bail!("this process may not use core {core}, only {available}");
        }
        let mut set = CpuSet::new();
        self.0.iter().try_for_each(|core| set.set(*core))?;
        sched_setaffinity(Pid::from_raw(0), &set).context("cannot choose cores")
    }
}

/// The cores of a run's processes.
#[derive(Debug)]
pub(crate) struct Pins {
    /// As many as it has threads for each switch, by its number.
    pub(crate) switches: Vec<Cores>,
    /// All others, for everything else.
    pub(crate) others: Cores,
}

impl Pins {
    /// # Errors
    /// If the switches leave no core for the hosts.
    pub(crate) fn new(switches: usize, threads: usize) -> Result<Self> {
        Self::of(Cores::available()?, switches, threads)
    }

    fn of(available: Cores, switches: usize, threads: usize) -> Result<Self> {
        let (count, needed) = (available.count(), switches * threads);
        ensure!(
            count > needed,
            "--pin: each thread of a switch needs a core, and the hosts at least one more: {} in \
             all, and this process may use {count}; leave --pin out",
            needed + 1
        );
        let (own, others) = available.0.split_at(needed);
        let switches = own.chunks(threads).map(|cores| Cores(cores.to_vec())).collect();
        Ok(Self { switches, others: Cores(others.to_vec()) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Cores {
        text.parse().unwrap()
    }

    #[test]
    fn cores_are_numbers_and_ranges() {
        assert_eq!(parsed("3,0-1,1").0, [0, 1, 3]);
        assert_eq!(parsed("3,0-1,1").to_string(), "0-1,3");
        assert_eq!([0, 2, 3, 5].map(|at| parsed("0-1,3").in_turn(at)), [0, 3, 0, 3].map(Some));
        for bad in [
            "",
            ",",
            "1,",
            "-1",
            "+1",
            "1-",
            "2-1",
            "a",
            "0x1",
            "1 ",
            "1024",
            "0-99999999999999999999",
        ] {
            assert_eq!(bad.parse::<Cores>(), Err(NotCores), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_set_makes_the_round_trip(numbers in prop::collection::btree_set(0usize..1024, 1..40)) {
            let cores = Cores(numbers.into_iter().collect());
            prop_assert_eq!(parsed(&cores.to_string()), cores);
        }
    }

    #[test]
    fn switches_have_cores_of_their_own() {
        let pins = Pins::of(parsed("2,4-7"), 2, 1).unwrap();
        assert_eq!(pins.switches, [parsed("2"), parsed("4")]);
        assert_eq!(pins.others, parsed("5-7"));
        let pins = Pins::of(parsed("2,4-7"), 2, 2).unwrap();
        assert_eq!(pins.switches, [parsed("2,4"), parsed("5-6")]);
        assert_eq!(pins.others, parsed("7"));
        let error = Pins::of(parsed("2,4-7"), 5, 1).unwrap_err().to_string();
        assert!(error.contains("6 in all, and this process may use 5"), "{error}");
    }

    #[test]
    fn a_thread_keeps_its_cores_and_passes_them_on() {
        // In a thread of its own, which ends.
        std::thread::spawn(|| {
            let available = Cores::available().unwrap();
            let one = Cores(vec![available.0[0]]);
            one.keep().unwrap();
            assert_eq!(Cores::available().unwrap(), one);
            let child = std::thread::spawn(|| Cores::available().unwrap());
            assert_eq!(child.join().unwrap(), one);
            let other = Cores(vec![1023]);
            let error = other.keep().unwrap_err().to_string();
            assert_eq!(error, format!("this process may not use core 1023, only {one}"));
        })
        .join()
        .unwrap();
    }
}
