//! The lines so far, in bounded memory: when there are too many samples, every other one goes. Counts are
//! totals, so nothing of them is lost; only times become coarser.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::live::model::{End, Line, Sample, Scene};

/// Most samples, and most bytes of all lines.
const MOST_SAMPLES: usize = 1500;
const MOST_BYTES: usize = 32 << 20;
/// Most notes; the oldest go first.
const MOST_NOTES: usize = 500;

/// A line, and its place among all that ever were in the history.
#[derive(Clone, Debug)]
pub struct Entry {
    /// From 1.
    pub number: u64,
    /// The line.
    pub line: Arc<Line>,
    /// The line as JSON.
    pub json: Arc<str>,
}

/// The lines so far.
#[derive(Clone, Debug, Default)]
pub struct History {
    scene: Option<Entry>,
    /// All lines but the scene.
    entries: VecDeque<Entry>,
    last: u64,
    samples: usize,
    notes: usize,
    bytes: usize,
    ended: bool,
}

impl History {
    /// Adds a line; after the end, none.
    pub fn push(&mut self, line: Line) {
        if self.ended {
            return;
        }
        let json: Arc<str> = line.to_json().into();
        self.last += 1;
        let entry = Entry { number: self.last, line: Arc::new(line), json };
        match *entry.line {
            // It describes all that the one before does.
            Line::Scene(_) => {
                self.scene = Some(entry);
                return;
            }
            Line::Sample(_) => self.samples += 1,
            Line::Note(_) => self.notes += 1,
            Line::End(_) => self.ended = true,
        }
        self.bytes += entry.json.len();
        self.entries.push_back(entry);
        if self.notes > MOST_NOTES {
            let mut surplus = self.notes - MOST_NOTES;
            self.retain(|line| {
                let goes = surplus > 0 && matches!(line, Line::Note(_));
                surplus -= usize::from(goes);
                !goes
            });
        }
        while self.samples > MOST_SAMPLES || (self.bytes > MOST_BYTES && self.samples > 2) {
            self.thin();
        }
    }

    /// Removes every other sample, but neither the first nor the last.
    fn thin(&mut self) {
        let (all, mut position) = (self.samples, 0);
        self.retain(|line| {
            if !matches!(line, Line::Sample(_)) {
                return true;
            }
            position += 1;
            position % 2 == 1 || position == all
        });
    }

    fn retain(&mut self, mut stays: impl FnMut(&Line) -> bool) {
        self.entries.retain(|entry| stays(&entry.line));
        self.samples = self.count(|line| matches!(line, Line::Sample(_)));
        self.notes = self.count(|line| matches!(line, Line::Note(_)));
        self.bytes = self.entries.iter().map(|entry| entry.json.len()).sum();
    }

    fn count(&self, is: impl Fn(&Line) -> bool) -> usize {
        self.entries.iter().filter(|entry| is(&entry.line)).count()
    }

    /// The scene, if it is newer than a number, and then the other lines after another number.
    pub fn after(&self, scene: u64, number: u64) -> impl Iterator<Item = &Entry> {
        let scene = self.scene.iter().filter(move |entry| entry.number > scene);
        let first = self.entries.partition_point(|entry| entry.number <= number);
        scene.chain(self.entries.range(first..))
    }

    /// All lines, the scene first.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.after(0, 0).map(|entry| &*entry.line)
    }

    /// The scene.
    #[must_use]
    pub fn scene(&self) -> Option<&Scene> {
        match &*self.scene.as_ref()?.line {
            Line::Scene(scene) => Some(scene),
            _ => None,
        }
    }

    /// The samples, in order.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &Sample> {
        let lines = self.entries.iter().map(|entry| &*entry.line);
        lines.filter_map(|line| if let Line::Sample(sample) = line { Some(sample) } else { None })
    }

    /// The end, if it has come.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        match &*self.entries.back()?.line {
            Line::End(end) => Some(end),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::model::tests::{sample, scene};
    use crate::live::model::{Note, Weight};

    #[test]
    fn memory_is_bounded_and_the_first_and_the_last_sample_stay() {
        let mut history = History::default();
        history.push(Line::Scene(scene()));
        for at in 0..20_000 {
            history.push(Line::Sample(sample(at, at / 5000, at)));
            let note = Note { at_us: at, weight: Weight::Info, job: None, text: "n".into() };
            history.push(Line::Note(note));
        }
        let samples: Vec<_> = history.samples().collect();
        assert!(samples.len() <= MOST_SAMPLES && samples.len() > MOST_SAMPLES / 3);
        assert_eq!((samples[0].at_us, samples[samples.len() - 1].at_us), (0, 19_999));
        assert!(samples.is_sorted_by_key(|sample| sample.at_us));
        assert!(history.count(|line| matches!(line, Line::Note(_))) <= MOST_NOTES);
        assert_eq!(history.scene(), Some(&scene()));
    }

    #[test]
    fn a_reader_gets_each_line_once_and_a_new_scene_again() {
        let mut history = History::default();
        history.push(Line::Scene(scene()));
        history.push(Line::Sample(sample(1, 0, 0)));
        let last = history.after(0, 0).map(|entry| entry.number).max().unwrap();
        assert_eq!(history.after(last, last).count(), 0);
        history.push(Line::Scene(scene()));
        history.push(Line::Sample(sample(2, 0, 0)));
        let kinds: Vec<_> = history.after(last, last).map(|entry| entry.line.clone()).collect();
        assert!(matches!(*kinds[0], Line::Scene(_)) && matches!(*kinds[1], Line::Sample(_)));
        assert_eq!(history.lines().count(), 3, "the old scene is gone");
    }

    #[test]
    fn nothing_follows_the_end() {
        let mut history = History::default();
        history.push(Line::End(End { at_us: 3, failure: None }));
        history.push(Line::Sample(sample(4, 0, 0)));
        assert_eq!(history.end().map(|end| end.at_us), Some(3));
        assert_eq!(history.samples().count(), 0);
    }
}
