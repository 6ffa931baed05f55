//! Figures on a self-contained HTML page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::figures::chart::{Chart, DrawError};
use crate::figures::table::Table;

/// A table with charts and notes.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// An ID for file names: letters, digits and hyphens.
    pub id: String,
    /// The title.
    pub title: String,
    /// Paragraphs on the set-up, the paper's results, and reasons for differences.
    pub notes: Vec<String>,
    /// The numbers.
    pub table: Table,
    /// The pictures.
    pub charts: Vec<Chart>,
}

const STYLE: &str = "\
    body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
    table{border-collapse:collapse;margin:1em 0;font-size:14px}\
    th,td{border-bottom:1px solid #ccc;padding:.25em .8em;text-align:right}\
    th{border-bottom:2px solid #888}.t{text-align:left}\
    svg{max-width:100%;height:auto}pre{background:#f4f4f4;padding:.6em}";

/// A page with figures, in order.
///
/// # Errors
///
/// If a chart cannot be drawn.
pub fn page(title: &str, command: &str, figures: &[Figure]) -> Result<String, DrawError> {
    let sections: Vec<Markup> = figures.iter().map(section).collect::<Result<_, _>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p { "Made by" }
                pre { (command) }
                @if figures.len() > 1 {
                    ul {
                        @for figure in figures { li { a href={"#" (figure.id)} { (figure.title) } } }
                    }
                }
                @for section in sections { (section) }
            }
        }
    };
    Ok(page.into_string())
}

fn section(figure: &Figure) -> Result<Markup, DrawError> {
    let charts: Vec<String> = figure.charts.iter().map(Chart::to_svg).collect::<Result<_, _>>()?;
    Ok(html! {
        section id=(figure.id) {
            h2 { (figure.title) }
            @for note in &figure.notes { p { (note) } }
            @for chart in charts { (PreEscaped(chart)) }
            table {
                thead { tr { @for column in &figure.table.columns { th { (column) } } } }
                tbody {
                    @for row in figure.table.shown() {
                        tr {
                            @for (cell, is_text) in row {
                                td.t[is_text] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::table::Cell;

    #[test]
    fn user_supplied_names_are_escaped() {
        let mut table = Table::new(["<policy>"]);
        table.push(vec![Cell::text("a & b")]);
        let figure = Figure {
            id: "one".to_owned(),
            title: "1 < 2".to_owned(),
            notes: vec!["\"noted\"".to_owned()],
            table,
            charts: Vec::new(),
        };
        let page = page("A page", "tributary-lab place --trace '<x>'", &[figure]).unwrap();
        for text in ["&lt;policy&gt;", "a &amp; b", "1 &lt; 2", "'&lt;x&gt;'"] {
            assert!(page.contains(text), "{text}\n{page}");
        }
        assert!(!page.contains("<policy>") && !page.contains("<x>"));
    }
}
