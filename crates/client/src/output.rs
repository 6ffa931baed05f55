//! What a command prints: text for people, and the same as JSON for programs.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::Value;
use tributary_base::printable;

/// Terminals with fewer columns do not tell their width, or have no room for tables.
const NARROWEST: u16 = 20;

/// What a command prints.
#[derive(Clone, Debug, Default)]
pub struct Report {
    blocks: Vec<Block>,
    json: Value,
}

#[derive(Clone, Debug)]
enum Block {
    Text(String),
    Rows(Rows),
}

/// Rows under a header.
#[derive(Clone, Debug)]
pub struct Rows {
    title: String,
    header: Vec<String>,
    /// The columns of numbers, which are aligned at the right.
    numbers: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// No rows yet. Columns whose name begins with `#` have numbers.
    #[must_use]
    pub fn new<'a>(title: impl Into<String>, header: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut names, mut numbers) = (Vec::new(), Vec::new());
        for (at, name) in header.into_iter().enumerate() {
            numbers.extend(name.starts_with('#').then_some(at));
            names.push(name.trim_start_matches('#').to_owned());
        }
        Self { title: title.into(), header: names, numbers, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As text for a terminal with so many columns, or else for this process's terminal, if it has one.
    fn text(&self, columns: Option<u16>) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(&self.header);
        if let Some(columns) = columns.or_else(|| table.width())
            && columns >= NARROWEST
        {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
        }
        for &at in &self.numbers {
            if let Some(column) = table.column_mut(at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| printable(cell)));
        }
        match &*self.title {
            "" => table.to_string(),
            title => format!("{title}\n{table}"),
        }
    }
}

impl Report {
    /// A report with this JSON and no text yet.
    #[must_use]
    pub fn new(json: Value) -> Self {
        Self { blocks: Vec::new(), json }
    }

    /// The same text with other JSON.
    #[must_use]
    pub fn with_json(self, json: Value) -> Self {
        Self { json, ..self }
    }

    /// Adds a line or several.
    #[must_use]
    pub fn line(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// Adds rows, if there are any.
    #[must_use]
    pub fn rows(mut self, rows: Rows) -> Self {
        if !rows.is_empty() {
            self.blocks.push(Block::Rows(rows));
        }
        self
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The text, for a terminal with so many columns, or else for this process's terminal, if it has one.
    #[must_use]
    pub fn text(&self, columns: Option<u16>) -> String {
        let text = |block: &Block| match block {
            Block::Text(text) => {
                let lines = text.trim_end_matches('\n').split('\n').map(printable);
                lines.collect::<Vec<String>>().join("\n")
            }
            Block::Rows(rows) => rows.text(columns),
        };
        self.blocks.iter().map(text).collect::<Vec<String>>().join("\n")
    }

    /// The JSON.
    #[must_use]
    pub const fn json(&self) -> &Value {
        &self.json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_the_terminal() {
        let mut rows = Rows::new("entries", ["key", "#packets"]);
        rows.push(["a long text in a cell\u{1b}[0m".to_owned(), "7".to_owned()]);
        let report = Report::default().line("first\n").rows(rows);
        let text = report.text(Some(24));
        assert!(text.starts_with("first\nentries\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 24), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(report.text(Some(0)).contains("a long text in a cell"), "an unknown width");
        assert!(Report::default().is_empty());
    }

    #[test]
    fn lines_from_a_switch_cannot_control_the_terminal() {
        let report = Report::default().line("a\tb \u{1b}]0;title\u{7}\n\nlast\n");
        assert_eq!(report.text(None), "a\tb \\u{1b}]0;title\\u{7}\n\nlast");
    }
}
