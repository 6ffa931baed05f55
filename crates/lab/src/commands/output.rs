//! Figures on the terminal and in a directory.

use std::path::Path;

use anyhow::Result;
use tributary_base::program::put;
use tributary_lab::figures::{Figure, page};

/// Prints a figure's table and notes.
pub(crate) fn show(figure: &Figure) -> Result<()> {
    let notes: String = figure.notes.iter().map(|note| format!("{note}\n")).collect();
    tributary_base::program::print(&format!(
        "{}\n{notes}{}",
        figure.title,
        figure.table.to_terminal()
    ))
}

/// Prints figures, and writes them to the directory, if one is given.
pub(crate) fn present(figures: &[Figure], title: &str, out: Option<&Path>) -> Result<()> {
    figures.iter().try_for_each(show)?;
    if let Some(out) = out {
        write(out, title, figures)?;
        tributary_base::say!(
            "{}: index.html, and a CSV file and plots for each figure",
            out.display()
        );
    }
    Ok(())
}

/// Writes figures as CSV, plots (SVG and PNG), and one page.
pub(crate) fn write(out: &Path, title: &str, figures: &[Figure]) -> Result<()> {
    for figure in figures {
        put(&out.join(format!("{}.csv", figure.id)), figure.table.to_csv())?;
        for (at, chart) in figure.charts.iter().enumerate() {
            let name = match figure.charts.len() {
                1 => figure.id.clone(),
                _ => format!("{}-{}", figure.id, at + 1),
            };
            put(&out.join(format!("{name}.svg")), chart.to_svg()?)?;
            put(&out.join(format!("{name}.png")), chart.to_png()?)?;
        }
    }
    let command: Vec<String> = std::env::args().skip(1).collect();
    let page = page(title, &format!("tributary-lab {}", command.join(" ")), figures)?;
    put(&out.join("index.html"), page)
}
