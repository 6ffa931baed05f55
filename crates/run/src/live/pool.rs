//! Cells of the heat map: who holds an aggregator, and for how long.
//!
//! A cell is two characters. The first is the job: `0` to `9`, then `a` to `z` and `A` to `Z`, or `?` for
//! a later job or one that is not in the scene. The second says for how long the same task has held it,
//! as far as the samples tell: `a` for less than 10 µs, and one letter more for each half of a decade. It is a
//! capital letter if another job held the aggregator in the last sample. Two dots stand for a free one.

/// The jobs that a cell can name.
const NAMES: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// What holds an aggregator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The job, by its position in the scene; `None` for a job that is not in the scene.
    pub job: Option<usize>,
    /// Tells the job's tasks apart.
    pub task: u64,
}

/// A cell, as [`cells`] reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The job; `None` for one that the characters do not name.
    pub job: Option<usize>,
    /// Half decades of the time since 3 µs: 0 for less than 10 µs, 2 for 30 to 100 µs.
    pub level: u8,
    /// Whether another job held the aggregator in the last sample.
    pub taken: bool,
}

/// Remembers since when each aggregator of a switch has been held.
#[derive(Clone, Debug, Default)]
pub struct Tracker(Vec<Option<(Holder, u64)>>);

impl Tracker {
    /// The cells of a sample.
    pub fn cells(&mut self, at_us: u64, holders: &[Option<Holder>]) -> String {
        self.0.resize(holders.len(), None);
        let mut text = String::with_capacity(2 * holders.len());
        for (known, now) in self.0.iter_mut().zip(holders) {
            let before = *known;
            *known = now.map(|now| match before {
                Some((holder, since)) if holder == now => (now, since),
                _ => (now, at_us),
            });
            let Some((holder, since)) = *known else {
                text.push_str("..");
                continue;
            };
            let name = holder.job.and_then(|job| NAMES.get(job)).copied().unwrap_or(b'?');
            let taken = before.is_some_and(|(before, _)| before.job != holder.job);
            let level = b'a' + level(at_us.saturating_sub(since));
            text.push(name.into());
            text.push(if taken { level.to_ascii_uppercase() } else { level }.into());
        }
        text
    }
}

/// Half decades from 10 µs on, at most 25.
fn level(held_us: u64) -> u8 {
    let halves = 2.0 * (held_us.max(1) as f64 / 10.0).log10();
    (1.0 + halves).floor().clamp(0.0, 25.0) as u8
}

/// The positions of the aggregators that a switch's cells show: all, or one of every few of them.
pub fn shown(pool: u32, cells: u32) -> impl ExactSizeIterator<Item = u32> {
    let (pool, cells) = (u64::from(pool), cells.min(pool));
    (0..cells).map(move |cell| (u64::from(cell) * pool / u64::from(cells)) as u32)
}

/// Reads the cells of a sample; `None` for a free aggregator. Stops at what are no cells.
pub fn cells(text: &str) -> impl Iterator<Item = Option<Cell>> + '_ {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    pairs.iter().map_while(|&[name, letter]| {
        if name == b'.' {
            return Some(None);
        }
        if !letter.is_ascii_alphabetic() {
            return None;
        }
        let job = NAMES.iter().position(|&known| known == name);
        let level = letter.to_ascii_lowercase() - b'a';
        Some(Some(Cell { job, level, taken: letter.is_ascii_uppercase() }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(job: usize, task: u64) -> Option<Holder> {
        Some(Holder { job: Some(job), task })
    }

    #[test]
    fn a_task_that_stays_gets_older_and_another_job_shows_that_it_took_over() {
        let mut tracker = Tracker::default();
        assert_eq!(tracker.cells(0, &[held(0, 7), None]), "0a..");
        assert_eq!(tracker.cells(100, &[held(0, 7), held(1, 1)]), "0d1a");
        // The same job with another task is young again, without having taken anything from a job.
        assert_eq!(tracker.cells(200, &[held(1, 2), held(1, 3)]), "1A1a");
        assert_eq!(tracker.cells(300, &[None, held(1, 3)]), "..1d");
    }

    #[test]
    fn cells_read_what_a_tracker_wrote() {
        let mut tracker = Tracker::default();
        let stranger = Some(Holder { job: None, task: 4 });
        tracker.cells(0, &[held(61, 1), None, stranger, held(62, 1)]);
        let text = tracker.cells(1_000_000, &[held(61, 1), None, held(0, 2), held(62, 1)]);
        let read: Vec<_> = cells(&text).collect();
        assert_eq!(read[0], Some(Cell { job: Some(61), level: 11, taken: false }));
        assert_eq!(read[1], None);
        assert_eq!(read[2], Some(Cell { job: Some(0), level: 0, taken: true }));
        assert_eq!(read[3].unwrap().job, None, "no character is left for the 63rd job");
    }

    #[test]
    fn a_large_pool_is_shown_by_aggregators_at_equal_distances() {
        assert_eq!(shown(8, 4).collect::<Vec<_>>(), [0, 2, 4, 6]);
        assert_eq!(shown(3, 8).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(shown(u32::MAX, 2).collect::<Vec<_>>(), [0, u32::MAX / 2]);
        assert_eq!(shown(0, 4).count(), 0);
    }
}
