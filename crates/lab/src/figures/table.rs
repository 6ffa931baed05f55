//! Tables for a terminal, for a page and as CSV.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width};
use tributary_cluster::metrics::Spread;

use crate::figures::interval::Interval;

/// Longest line of a text cell on a terminal, in letters; longer texts have several lines.
const LINE: u16 = 60;

/// One cell.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number, shown with this number of decimals.
    Number(f64, usize),
    /// A mean and its deviation, shown with this number of decimals.
    Spread(Spread, usize),
    /// A mean and the half-width of its 95 % confidence interval, shown with this number of decimals.
    Interval(Interval, usize),
    /// An empty cell.
    None,
}

impl Cell {
    /// A text cell.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number, digits) => format!("{number:.digits$}"),
            // A single run has no deviation.
            Self::Spread(Spread { runs: 1, mean, .. }, digits) => format!("{mean:.digits$}"),
            Self::Spread(Spread { mean, deviation, .. }, digits) => {
                format!("{mean:.digits$} ± {deviation:.digits$}")
            }
            Self::Interval(interval, digits) => interval.shown(*digits),
            Self::None => "–".to_owned(),
        }
    }

    /// What the second column of its column in CSV has, if there is one.
    fn second(&self) -> Option<&'static str> {
        match self {
            Self::Spread(..) => Some("deviation"),
            Self::Interval(..) => Some("± 95 %"),
            Self::Text(_) | Self::Number(..) | Self::None => None,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}

/// Rows below a header.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// Labels of the columns, with units.
    pub columns: Vec<String>,
    /// The rows, each as long as the header.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If the row is not as long as the header.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// Renders the table for a terminal.
    #[must_use]
    pub fn to_terminal(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.columns);
        for row in &self.rows {
            let cells = row.iter().map(|cell| {
                let align = if cell.is_text() { CellAlignment::Left } else { CellAlignment::Right };
                comfy_table::Cell::new(cell.shown()).set_alignment(align)
            });
            table.add_row(cells);
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            let is_long = |row: &Vec<Cell>| {
                row[at].is_text() && row[at].shown().chars().count() > usize::from(LINE)
            };
            if self.rows.iter().any(is_long) {
                column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(LINE)));
            }
        }
        table.to_string()
    }

    /// Renders the table as comma-separated values with full precision. A deviation, or half of the
    /// width of a confidence interval, has its own column after that of its mean.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let second = |at: usize| self.rows.iter().find_map(|row| row[at].second());
        let seconds: Vec<Option<&str>> = (0..self.columns.len()).map(second).collect();
        let mut table = csv::Writer::from_writer(Vec::new());
        let mut write = |fields: Vec<[String; 2]>| {
            let row = fields.iter().zip(&seconds).flat_map(|([value, width], second)| {
                [Some(value), second.is_some().then_some(width)]
            });
            table.write_record(row.flatten()).expect("rows have the same length");
        };
        let head = |(column, second): (&String, &Option<&str>)| {
            [column.clone(), format!("{column}, {}", second.unwrap_or_default())]
        };
        write(self.columns.iter().zip(&seconds).map(head).collect());
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell {
                Cell::Text(words) => [words.clone(), String::new()],
                Cell::Number(number, _) => [number.to_string(), String::new()],
                Cell::Spread(spread, _) => [spread.mean.to_string(), spread.deviation.to_string()],
                Cell::Interval(interval, _) => {
                    let half = interval.half.map(|half| half.to_string());
                    [interval.mean.to_string(), half.unwrap_or_default()]
                }
                Cell::None => [String::new(), String::new()],
            });
            write(cells.collect());
        }
        let bytes = table.into_inner().expect("memory takes everything");
        String::from_utf8(bytes).expect("fields are text")
    }

    /// The formatted cells for a page, row by row.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Vec<(String, bool)>> {
        self.rows.iter().map(|row| row.iter().map(|cell| (cell.shown(), cell.is_text())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["policy", "JCT, s"]);
        table.push(vec![Cell::text("a \"b\""), Cell::Spread(Spread::of(&[1.0, 2.0, 6.0]), 1)]);
        table.push(vec![Cell::text("plain"), Cell::None]);
        table
    }

    #[test]
    fn csv_has_every_digit_and_a_column_for_deviations() {
        let deviation = 7.0_f64.sqrt();
        let expected = format!(
            "policy,\"JCT, s\",\"JCT, s, deviation\"\n\"a \"\"b\"\"\",3,{deviation}\nplain,,\n"
        );
        assert_eq!(table().to_csv(), expected);
    }

    #[test]
    fn csv_has_a_column_for_intervals_which_is_empty_for_a_single_run() {
        let mut table = Table::new(["model", "ESA / ATP"]);
        table.push(vec![
            Cell::text("A"),
            Cell::Interval(Interval { mean: 1.5, half: Some(0.25) }, 2),
        ]);
        table.push(vec![Cell::text("B"), Cell::Interval(Interval::of(&[2.0]), 2)]);
        let expected = "model,ESA / ATP,\"ESA / ATP, ± 95 %\"\nA,1.5,0.25\nB,2,\n";
        assert_eq!(table.to_csv(), expected);
        assert!(table.to_terminal().contains("1.50 ± 0.25"));
    }

    #[test]
    fn a_terminal_gets_long_texts_in_several_lines() {
        let mut table = Table::new(["why", "number"]);
        table.push(vec![Cell::text("word ".repeat(40).trim()), Cell::Number(1.0, 1)]);
        let shown = table.to_terminal();
        let longest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest < 80, "{longest}\n{shown}");
        assert_eq!(shown.matches("word").count(), 40, "{shown}");
    }

    #[test]
    fn a_terminal_gets_rounded_numbers() {
        let shown = table().to_terminal();
        assert!(shown.contains("3.0 ± 2.6") && shown.contains('–'), "{shown}");
    }
}
