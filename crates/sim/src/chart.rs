//! Sequence charts of a [`Trace`]: as text for terminals and test output, as SVG for pages.
//!
//! A column is a host or a switch; a row is a frame, a message or an event, with its label beside
//! the arrow. Time runs downwards, but not to scale.

mod svg;
mod text;

use std::collections::BTreeSet;

use crate::trace::{Fate, Sighting, Trace, What};

/// A chart, ready to be drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    columns: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    time: u64,
    /// Columns; the same one for an event.
    from: usize,
    to: usize,
    style: Style,
    lost: bool,
    /// Zero if it belongs to no job.
    job: u16,
    label: String,
    /// The switch's outcome.
    outcome: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    Frame,
    Message,
    Event,
}

impl Chart {
    /// A chart of a whole trace. Columns are in the given order; others follow by first appearance.
    #[must_use]
    pub fn new(title: &str, columns: &[&str], trace: &Trace) -> Self {
        let mut chart = Self {
            title: title.into(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        };
        for sighting in trace.sightings() {
            chart.push(sighting);
        }
        chart.forget_unused();
        chart
    }

    fn push(&mut self, sighting: &Sighting) {
        let row = Row {
            time: sighting.time,
            from: self.column(&sighting.from),
            to: self.column(&sighting.to),
            style: match sighting.what {
                What::Packet(_) | What::Frame => Style::Frame,
                What::Message(..) => Style::Message,
                What::Event(_) => Style::Event,
            },
            lost: sighting.fate == Fate::Lost,
            job: sighting.job().map_or(0, tributary_wire::JobId::get),
            label: sighting.label(),
            outcome: sighting.outcome,
        };
        self.rows.push(row);
    }

    fn column(&mut self, name: &str) -> usize {
        self.columns.iter().position(|known| known == name).unwrap_or_else(|| {
            self.columns.push(name.into());
            self.columns.len() - 1
        })
    }

    /// Keeps the first rows, at most so many, and says so in the title. Returns how many are left out.
    pub fn keep(&mut self, most: usize) -> usize {
        let left_out = self.rows.len().saturating_sub(most);
        if left_out > 0 {
            self.rows.truncate(most);
            self.title = format!("{}: the first {most} of {}", self.title, most + left_out);
            self.forget_unused();
        }
        left_out
    }

    /// Removes columns without any row.
    fn forget_unused(&mut self) {
        let used: BTreeSet<usize> = self.rows.iter().flat_map(|row| [row.from, row.to]).collect();
        let kept: Vec<usize> = used.into_iter().collect();
        let place = |old: usize| kept.partition_point(|&column| column < old);
        for row in &mut self.rows {
            (row.from, row.to) = (place(row.from), place(row.to));
        }
        self.columns = kept.iter().map(|&column| self.columns[column].clone()).collect();
    }
}

impl Row {
    /// Microseconds since the start.
    fn microseconds(&self) -> String {
        format!("{:.1}", self.time as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn trace() -> Trace {
        let mut trace = Trace::default();
        let event = |text: &str| What::Event(text.into());
        let message = |text: &str| {
            What::Message(tributary_wire::JobId::new(1).expect("not zero"), text.into())
        };
        trace.push(1_000, "w1", "s1", What::Frame, Fate::Arrived);
        trace.counted("absorbed");
        trace.push(2_500, "s1", "w2", What::Frame, Fate::Lost);
        trace.push(1_002_000, "w2", "ps", message("remind j1 s0"), Fate::Arrived);
        trace.push(1_003_000, "ps", "ps", event("stops & starts"), Fate::Arrived);
        trace
    }

    #[test]
    fn columns_have_the_given_order_and_unused_ones_are_removed() {
        let chart = Chart::new("", &["w1", "w2", "nobody", "s1"], &trace());
        assert_eq!(chart.columns, ["w1", "w2", "s1", "ps"]);
        let ends: Vec<_> = chart.rows.iter().map(|row| (row.from, row.to)).collect();
        assert_eq!(ends, [(0, 2), (2, 1), (1, 3), (3, 3)]);
    }
}
