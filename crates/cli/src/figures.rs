//! Figures on the terminal and in a directory, and the progress bar of long measurements.

use std::path::Path;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use tributary_figures::{Figure, page};

/// Runs `work` with a progress bar on terminals.
pub(crate) fn with_bar<T>(what: &str, work: impl FnOnce(&(dyn Fn(u64, u64) + Sync)) -> T) -> T {
    let template = format!("{{bar:40}} {{pos}}/{{len}} {what}  {{elapsed_precise}}");
    let style = ProgressStyle::with_template(&template).expect("a valid template");
    let bar = ProgressBar::new(0).with_style(style);
    let result = work(&|done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    result
}

/// Prints a figure's table and notes.
pub(crate) fn show(figure: &Figure) -> Result<()> {
    let notes: String = figure.notes.iter().map(|note| format!("{note}\n")).collect();
    crate::print(&format!("{}\n{notes}{}", figure.title, figure.table.to_terminal()))
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
    let page = page(title, &format!("tributary {}", command.join(" ")), figures)?;
    put(&out.join("index.html"), page)
}

pub(crate) fn put(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    tributary_limits::write_whole(path, content)
        .with_context(|| format!("cannot write {}", path.display()))
}
